"""Stops are those of vLLM and transformers, and what lies behind one is nobody's."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.generation.stopping_criteria import StopStringCriteria
from vllm.v1.engine.detokenizer import check_stop_strings

from gfcr.errors import ConfigError
from gfcr.loop.stops import ends_at, parted, text_of
from gfcr.strategy import load
from gfcr.tasks.codec import HfCodec
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Rollout, Sampling
from tests.loops import Hasty

TEXTS = ["Question: é", "\nQuestion", "a b\n\nc", "Äpfel, ##", "Answer:\n", "####"]
STOPS = ["\n", "Question:", "\n\n", "##", "é", " b", "ÄÄ", "n:a", "b\n"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A byte-level one, some tokens of which are parts of characters and some several words."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS * 20,
        trainers.BpeTrainer(
            vocab_size=300, initial_alphabet=alphabet, special_tokens=["<eos>"], show_progress=False
        ),
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<eos>").save_pretrained(folder)
    return folder


def by_vllm(codec: HfCodec, tokens: Sequence[int], sampling: Sampling) -> tuple[int, str] | None:
    """Adds one token after the other, as vLLM's detokenizer does."""
    text = ""
    for count in range(1, len(tokens) + 1):
        now = codec.decode(tokens[:count])
        while now.endswith("�"):  # which it holds back until the character is whole
            now = now[:-1]
        new, text = len(now) - len(text), now
        found = check_stop_strings(text, new, list(sampling.stop), sampling.include_stop)
        if found is not None:
            _, end = found
            return count, text if end == -1 else text[:end]
    return None


def test_stops_are_those_of_vllm_and_transformers(tokenizer: Path) -> None:
    codec, rng = HfCodec(tokenizer), np.random.default_rng(0)
    met = 0
    for _ in range(200):
        pieces = [codec.encode(str(t)) for t in rng.choice([*TEXTS, *STOPS], size=8)]
        tokens = [int(t) for piece in pieces for t in piece]
        # Whole characters alone: what is left of one by the end is no text in either.
        stops = tuple(map(str, rng.choice(STOPS, size=int(rng.integers(1, 4)), replace=False)))
        sampling = Sampling(stop=stops, include_stop=bool(rng.integers(2)))
        theirs = by_vllm(codec, tokens, sampling)
        each = [
            n
            for n in range(1, len(tokens) + 1)
            if ends_at(tokens[:n], new=1, stops=stops, codec=codec)
        ]
        found = ends_at(tokens, new=len(tokens), stops=stops, codec=codec)
        at_once = found and found[0]
        assert (each[0] if each else None) == at_once == (theirs[0] if theirs else None)
        criterion = StopStringCriteria(codec._tokenizer, list(stops))
        ids = [torch.tensor([tokens[:n]]) for n in range(1, len(tokens) + 1)]
        hf = [n for n, row in enumerate(ids, 1) if criterion(row, torch.zeros(1, 1))[0]]
        assert (hf[0] if hf else None) == at_once
        if theirs:
            met += 1
            assert text_of(tokens[: theirs[0]], sampling=sampling, codec=codec) == theirs[1]
    assert 100 < met < 200


def test_a_stop_of_a_turn_is_a_text_or_a_special_token(tokenizer: Path) -> None:
    codec = HfCodec(tokenizer)
    (line,), eos = codec.encode("\n"), codec.encode("<eos>")
    assert parted("\n", codec=codec) == ((line,), "\n") and parted("", codec=codec) == ((), "")
    assert parted("</x>", codec=codec) == ((), "</x>") and parted("<eos>", codec=codec) == (eos, "")
    with pytest.raises(ConfigError, match="is 2 tokens, special ones among them"):
        parted("<eos>\n", codec=codec)


def test_the_last_letter_of_a_stop_may_come_in_parts_or_be_no_text_of_its_own(
    tokenizer: Path,
) -> None:
    codec = HfCodec(tokenizer)
    first, last = codec.encode("ß")
    assert ends_at((first, last), new=1, stops=("ß",), codec=codec) == (2, "ß")
    strips: Any = SimpleNamespace(decode=lambda tokens: "".join(tokens).lstrip())
    assert ends_at(("a", " "), new=1, stops=("a ",), codec=strips) == (2, "a ")


def ran(sampling: Sampling) -> Any:
    """A pipeline on the fake engine, which drafts: a step brings several tokens."""
    pipeline = make.pipeline(load("grpo", drafter="das"))
    pipeline.sampling = sampling
    return pipeline


def rollouts(pipeline: Any) -> list[Rollout]:
    batches = [pipeline.next_batch() for _ in range(2)]
    return [s.rollout for b in batches for s in b.samples]


@pytest.mark.parametrize("included", [False, True])
def test_tokens_behind_a_stop_are_never_trained_and_counted(included: bool) -> None:
    sampling = Sampling(max_tokens=24, stop=("7", "3-"), include_stop=included)
    pipeline = ran(sampling)
    found = rollouts(pipeline)
    ended = 0
    for each in found:
        text = make.CODEC.decode(each.tokens_T.tolist())
        first = min((text.find(s) + len(s) for s in sampling.stop if s in text), default=len(text))
        assert text[first:] == "", "a token behind the stop"
        stopped = any(stop in text for stop in sampling.stop)
        ended += stopped
        assert not stopped or each.finish == FinishReason.STOP
        cut = next((s for s in sampling.stop if text.endswith(s)), "")
        assert each.text == (text if included else text.removesuffix(cut))
        assert sum(s.stop - s.start for s in each.spans) == len(each)
    assert ended > len(found) / 4
    assert sum(pipeline.tokens().values()) == 2 * pipeline.tokens()["generated"]


def test_what_a_step_brings_behind_a_stop_is_aborted() -> None:
    says = make.CODEC.encode("12345678")
    pipeline = make.pipeline(load("grpo"), script=lambda request: says, on=Hasty)
    pipeline.sampling = Sampling(max_tokens=8, stop=("45",))
    batch = pipeline.next_batch()
    found = [r for g in batch.groups for r in g.rollouts]
    assert {r.text for r in found} == {"123"} and {len(r) for r in found} == {5}
    assert pipeline.tokens()["aborted"] == 3 * len(found), "678 of each"


def test_a_stop_that_was_complete_before_ends_nothing() -> None:
    sampling = Sampling(stop=("45",))
    told = make.CODEC.encode("12345")
    assert ends_at((*told, 9), new=1, stops=sampling.stop, codec=make.CODEC) is None
    assert text_of((*told, 9), sampling=sampling, codec=make.CODEC) == "123455"


def test_stop_tokens_end_a_rollout_and_are_no_text() -> None:
    token = make.CODEC.encode("5")[0]
    found = rollouts(ran(Sampling(max_tokens=24, stop_token_ids=(token,))))
    held = [r for r in found if token in r.tokens_T]
    assert held and all(list(r.tokens_T).index(token) == len(r) - 1 for r in held)
    assert all("5" not in r.text and r.finish == FinishReason.STOP for r in held)


def test_stops_read_from_a_record_are_those_written() -> None:
    sampling = Sampling(stop=("a", "b"), stop_token_ids=(3,))
    read = Sampling(**json.loads(json.dumps(asdict(sampling))))
    assert read == sampling and hash(read) == hash(sampling)


@pytest.mark.parametrize("stop", ["", ["a", ""], 3])
def test_what_is_no_stop_is_refused(stop: Any) -> None:
    with pytest.raises(ConfigError, match=r"Sampling\.stop"):
        Sampling(stop=stop)
