"""A model of transformers as teacher: its log-probs, their mean, and what is no teacher."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from gfcr.control._causal_lm import logprobs_of
from gfcr.control.teacher import Teacher
from gfcr.errors import ConfigError
from gfcr.filter.reverse_kl import ReverseKl
from gfcr.generate.sample import Sample
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.tasks.codec import SPECIAL_TOKENS
from gfcr.testing import factories as make
from gfcr.types import Floats, RolloutBatch, Sampling
from tests.cases import over


def save(folder: Path, alphabet: str) -> Path:
    """A tiny random model on characters, with room for 64 tokens."""
    vocab = {c: i for i, c in enumerate([*SPECIAL_TOKENS, *alphabet])}
    characters = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    splits: Any = pre_tokenizers.Split(Regex("."), "isolated")
    characters.pre_tokenizer = splits
    named = {f"{s[1:-1]}_token": s for s in SPECIAL_TOKENS}
    PreTrainedTokenizerFast(tokenizer_object=characters, **named).save_pretrained(folder)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1}
    config = LlamaConfig(
        vocab_size=len(vocab),
        intermediate_size=16,
        num_attention_heads=2,
        initializer_range=0.7,
        max_position_embeddings=64,
        **sizes,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("teacher"), make.CODEC.alphabet)


@cache
def loaded(model: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(model, dtype=torch.float32).eval()


def laws(model: Path, tokens: list[int], heat: float = 1.0) -> Floats:
    """The law of each next token, shape (token, vocabulary), one sequence at a time."""
    lm = loaded(model)
    with torch.inference_mode():
        return (lm(torch.tensor([tokens])).logits[0] / heat).log_softmax(-1).numpy()


def run(model: Path, **changes: Any) -> tuple[Pipeline, RolloutBatch]:
    strategy = Strategy(
        name="t",
        generate=Sample(),
        filters={"distill": ReverseKl()},
        controls={"teacher": Teacher(model=str(model), batch_tokens=200)},
        group_size=4,
    )
    pipeline = make.pipeline(strategy, **{"prompts": 16, **changes})
    return pipeline, pipeline.next_batch()


@over("batch_tokens", [1, 20, 1000])
@over("heat", [0.0, 0.7, 1.0])
def test_log_probs_are_those_of_each_sequence_alone(
    model: Path, batch_tokens: int, heat: float
) -> None:
    rng = np.random.default_rng(0)
    sizes = [(3, 5), (1, 9), (4, 1), (2, 2), (7, 6)]
    pairs = [tuple(rng.integers(4, 20, n).tolist() for n in each) for each in sizes]
    own = {"model": str(model), "device": "cpu", "batch_tokens": batch_tokens}
    found = logprobs_of(pairs, **own, temperature=heat)
    for (head, tail), got in zip(pairs, found, strict=True):
        every = laws(model, [*head, *tail], heat or 1.0)[len(head) - 1 : -1]
        np.testing.assert_allclose(got, every[np.arange(len(tail)), tail], atol=1e-5)


def test_advantages_are_on_average_minus_the_exact_divergence_of_each_token(model: Path) -> None:
    pipeline, batch = run(model)
    engine: Any = pipeline.engine
    gaps: list[float] = []
    divergences: list[float] = []
    for sample in batch.samples:
        head, tail = [*sample.rollout.prompt.tokens], sample.rollout.tokens_T.tolist()
        every = laws(model, [*head, *tail])[len(head) - 1 : -1]
        for t, q in enumerate(every):
            p = engine.probabilities((*head, *tail[:t]), sampling=Sampling()).astype(float)
            some = p > 0
            divergences.append(float((p[some] * (np.log(p[some]) - q[some])).sum()))
            gaps.append(float(sample.advantage_T[t]) + divergences[-1])
    error = np.std(gaps) / len(gaps) ** 0.5
    assert len(gaps) > 300 and abs(np.mean(gaps)) < 4 * error < np.mean(divergences) / 4


def test_what_is_longer_than_the_teacher_can_read_is_rejected(model: Path) -> None:
    pipeline, batch = run(model, max_tokens=200)
    for group in batch.groups:
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            long = len(rollout.prompt.tokens) + len(rollout) > 64
            assert signal.rejected == ("no_teacher" if long else None)
    assert pipeline.tokens()["rejected:no_teacher"] > 0 and batch.samples


def test_another_vocabulary_or_no_model_ends_the_run(model: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "other", make.CODEC.alphabet[::-1])
    with pytest.raises(ConfigError, match="has another vocabulary than the run's model: token"):
        run(other)
    fewer = save(tmp_path / "fewer", make.CODEC.alphabet[:8])
    with pytest.raises(ConfigError, match="is None to it"):
        run(fewer)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        run(tmp_path)
