"""A process reward model of transformers: which token scores which step."""

import string
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from gfcr import strategy as strategies
from gfcr.control.process_reward import ProcessReward, _loaded, score_steps
from gfcr.errors import ConfigError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import Group


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model on characters, weights random."""
    folder = tmp_path_factory.mktemp("prm")
    vocab = {c: i for i, c in enumerate(["?", *string.digits, *"+-=,#x", "[CLS]"])}
    characters = Tokenizer(models.WordLevel(vocab, unk_token="?"))
    splits: Any = pre_tokenizers.Split(Regex("."), "isolated")
    characters.pre_tokenizer = splits
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters, unk_token="?", pad_token="?")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(
        vocab_size=len(vocab), intermediate_size=16, num_labels=2, initializer_range=1.0, **sizes
    )
    BertForTokenClassification(config).save_pretrained(folder)
    return folder


def brute(model: Path, text: str, good: int) -> list[float]:
    """Probability of the label at every character."""
    tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(model)
    scorer = BertForTokenClassification.from_pretrained(model).eval()
    ids = torch.tensor([tokenizer.convert_tokens_to_ids([*text])])
    with torch.inference_mode():
        return scorer(input_ids=ids).logits[0].softmax(-1)[:, good].tolist()


@pytest.mark.parametrize("good", [0, 1])
def test_a_step_is_scored_at_its_last_token(model: Path, good: int) -> None:
    prompt, text, ends = "1+2=", "3,4#5", [2, 5]
    (found,) = score_steps(str(model), "cpu", good, [(prompt, text)], [ends])
    each = brute(model, prompt + text, good)
    assert found == pytest.approx([each[4 + end - 1] for end in ends], abs=1e-5)
    assert len(set(np.round(each, 4))) > 4, "the model tells tokens apart"


def test_groups_complete_at_once_are_scored_by_one_copy_of_the_model(model: Path) -> None:
    _loaded.cache_clear()
    asked = (str(model), "cpu", 1, [("1+2=", "3")], [[1]])
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: score_steps(*asked), range(4))]
    assert _loaded.cache_info().misses == 1 and found == found[:1] * 4


def test_what_is_too_long_for_the_model_is_rejected_not_worth_nothing(model: Path) -> None:
    long = make.rollout(1, text="1,2" * 200, length=600)
    for weight, why in ((0.0, "no_process"), (0.5, "not_judged"), (1.0, "not_judged")):
        part = ProcessReward(model=str(model), separator=",", weight=weight)
        found = judged(part, make.group_of([make.rollout(0), long]))
        assert [s.rejected for s in found.signals] == [None, why] and part.steps == 1
        assert found.rollouts[0].reward is not None
        assert (found.rollouts[1].reward is None) == (weight > 0)


@pytest.mark.parametrize(
    ("text", "ends"),
    [("1,2,3", [2, 4, 5]), ("1,2,", [2, 4]), ("12", [2]), ("", [0]), (",", [1])],
)
def test_where_steps_end(text: str, ends: list[int]) -> None:
    assert ProcessReward(separator=",").ends(text) == ends


def judged(part: ProcessReward, group: Group) -> Group:
    """What the part makes of a group where slow functions answer at once."""

    async def call(function: Any, *args: Any) -> Any:
        return function(*args)

    scratch: Any = SimpleNamespace(view=make.view(), call=call)
    with pytest.raises(StopIteration) as done:
        part.evaluate(group, scratch).send(None)
    return done.value.value


def run(part: ProcessReward) -> list[Group]:
    strategy = Strategy(
        name="t",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"process_reward": part},
        group_size=3,
    )
    batch = make.pipeline(strategy, task=make.CoinTask(rates=(0.5,)), prompts=3).next_batch()
    assert batch.metrics["controls.process_reward/steps"] > 9
    return list(batch.groups)


@pytest.mark.parametrize(
    ("reduce", "of"), [("min", min), ("last", lambda s: s[-1]), ("product", np.prod)]
)
def test_rollouts_get_rewards_and_each_token_its_step_s_score(
    model: Path, reduce: Any, of: Any
) -> None:
    part = ProcessReward(model=str(model), separator=",", reduce=reduce)
    for group in run(part):
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            ends = part.ends(rollout.text)
            each = brute(model, group.prompt.text + rollout.text, 1)
            wanted = [each[len(group.prompt.text) + end - 1] for end in ends]
            assert rollout.reward == pytest.approx(float(of(wanted)), abs=1e-5)
            place = np.searchsorted(ends, np.arange(len(rollout)), side="right")
            spread = np.array(wanted)[np.minimum(place, len(ends) - 1)]
            np.testing.assert_allclose(np.asarray(signal.scores["process"]), spread, atol=1e-5)


def test_with_weight_0_the_verifier_s_reward_stays(model: Path) -> None:
    groups = run(ProcessReward(model=str(model), separator=",", weight=0.0))
    assert {r.reward for g in groups for r in g.rollouts} == {0.0, 1.0}
    half = run(ProcessReward(model=str(model), separator=",", weight=0.5, reduce="mean"))
    for before, after in zip(groups, half, strict=True):
        rest = after.raw_rewards_N - 0.5 * before.raw_rewards_N
        assert ((rest > 0) & (rest < 0.5)).all()
    # What is replayed is worth what it was: its reward has the model's share already.
    again = replace(half[0], rollouts=tuple(replace(r, origin="replay") for r in half[0].rollouts))
    part = ProcessReward(model=str(model), separator=",", weight=0.5, reduce="mean")
    found = judged(part, again)
    assert found.raw_rewards_N.tolist() == again.raw_rewards_N.tolist()
    assert all(s.scores.keys() == {"process"} for s in found.signals)
    # A later turn of an episode is read behind the turns before it, which are its prompt.
    turn = make.rollout(1, text="7", length=1, of=make.prompt(1, text="1+2=3,4+3="))
    found = judged(ProcessReward(model=str(model)), make.group_of([make.rollout(0), turn]))
    assert found.rollouts[1].reward == pytest.approx(brute(model, "1+2=3,4+3=7", 1)[-1], abs=1e-5)


def test_no_model_or_no_separator_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"process_reward\.separator=''"):
        ProcessReward(separator="")
    unnamed = strategies.load("grpo", controls={"prm": {"name": "process_reward"}})
    with pytest.raises(ConfigError, match=r"strategy\.controls\.prm: model=''"):
        unnamed.check()
