"""Reward functions of every kind are worth in the drop-in what they are worth in stock TRL.

The drop-in trains on rollouts of the fake engine and stores them; stock TRL is handed those. What
both give their loss (tokens, mask, advantages) and show (rewards, columns, metrics) is compared,
over two updates of one pass. About half a second a case.
"""

import math
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from datasets import Dataset
from trl import GRPOConfig
from trl import GRPOTrainer as Stock

from gfcr.drop_in import GRPOTrainer
from gfcr.errors import ConfigError
from gfcr.tasks.chain_sum import ALPHABET
from gfcr.tracking.rollouts import read_update
from gfcr.train.sft import char_tokenizer
from tests.integration.reward_kinds import (
    SIZE,
    Counting,
    Waiting,
    array,
    capped,
    ended,
    generated,
    growing,
    later,
    lengths,
    limited,
    logging,
    numbers,
    ranked,
    sometimes,
    spoken,
    tensor,
    tensors,
)
from tests.integration.tiny_model import tiny_chain_sum, tiny_qwen3
from tests.integration.trl_stock import arguments, train_stock

PROMPTS = ["1+2=", "3+4=", "15+6=", "7+8="]
LIMITS = [3, 9, 5, 7]
CHAT = "{% for turn in messages %}{{ turn.content }}{% endfor %}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Reward functions and settings of both trainers, and what only one of them is told."""

    rewards: list[Any]
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    filter: dict[str, Any] = field(default_factory=dict[str, Any])
    stock: dict[str, Any] = field(default_factory=dict[str, Any])
    engine: dict[str, Any] = field(default_factory=dict[str, Any])
    chat: bool = False
    unscored: bool = False
    """Whether some have no score: left out here, and of no advantage in stock TRL."""


WEIGHED = {"reward_weights": [0.3, 2.0, -0.7]}
UNSCALED = {"name": "group_advantage", "kind": "dr_grpo"}
APART = {
    "name": "gdpo",
    "weights": {"rewards/lengths": 0.3, "rewards/later": 2.0, "rewards/ended": -0.7},
}
CASES = {
    "a function": Case(rewards=[lengths]),
    "coroutines": Case(rewards=[later, Waiting("2"), ended]),
    "a partial": Case(rewards=[partial(capped, most=9)]),
    "a partial of a coroutine": Case(rewards=[partial(later, unused=1)]),
    "an instance": Case(rewards=[Counting("1"), ended]),
    "None for some": Case(rewards=[sometimes], unscored=True),
    "None of one of two": Case(rewards=[sometimes, ended], settings={"reward_weights": [2.0, 0.5]}),
    "a tensor": Case(rewards=[tensor]),
    "tensors": Case(rewards=[tensors]),
    "Decimal, numpy, bool": Case(rewards=[numbers]),
    "an array, a generator": Case(rewards=[array, generated]),
    "ranks of a prompt's completions": Case(rewards=[ranked]),
    "columns": Case(rewards=[limited]),
    "tokens": Case(rewards=[ended]),
    "messages": Case(rewards=[spoken, ended], chat=True),
    "what is logged": Case(rewards=[logging]),
    "what is logged of equal texts": Case(
        rewards=[logging],
        settings={"num_generations": 16, "max_completion_length": 1},
        engine={"alphabet": "0", "mean_length": 2.0},  # of two tokens that leave no text
        chat=True,
    ),
    "the trainer's state": Case(rewards=[growing]),
    "weights": Case(rewards=[lengths, later, ended], settings=WEIGHED),
    "no scale": Case(rewards=[lengths], settings={"scale_rewards": "none"}),
    "no scale, by a filter": Case(
        rewards=[lengths], filter=UNSCALED, stock={"scale_rewards": "none"}
    ),
    "each scaled by itself": Case(
        rewards=[lengths, later, ended],
        settings=WEIGHED,
        filter=APART,
        stock={"multi_objective_aggregation": "normalize_then_sum"},
    ),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("chat")
    tiny_qwen3(folder)
    tokenizer: Any = char_tokenizer(ALPHABET)
    tokenizer.chat_template = CHAT
    tokenizer.add_special_tokens({"additional_special_tokens": ["0"]})
    tokenizer.save_pretrained(folder)
    return str(folder)


class Row(NamedTuple):
    """A completion, its prompt and what is said of it; its advantage first, and other numbers."""

    said: str
    numbers: list[float]


class Seen:
    """Keeps what the loss is given in each update, and what is shown of it."""

    def _prepare_inputs(self, batch: Any) -> dict[str, Any]:
        trainer: Any = self
        inputs = super()._prepare_inputs(batch)  # type: ignore[misc]
        trainer.told = [*getattr(trainer, "told", []), (in_loss(inputs), in_table(trainer._logs))]
        return inputs


class Ours(Seen, GRPOTrainer):
    """The drop-in."""


class Theirs(Seen, Stock):
    """Stock TRL."""


def in_loss(inputs: dict[str, Any]) -> list[Row]:
    """Prompt, completion and advantage of each row, without padding."""
    advantages = inputs["advantages"].reshape(len(inputs["prompt_ids"]), -1)[:, 0].tolist()
    made = zip(own_ids(inputs, "prompt"), own_ids(inputs, "completion"), advantages, strict=True)
    return sorted(Row(f"{asked} {answered}", [worth]) for asked, answered, worth in made)


def own_ids(inputs: dict[str, Any], side: str) -> list[list[int]]:
    pairs = zip(inputs[f"{side}_ids"], inputs[f"{side}_mask"], strict=True)
    return [ids[mask.bool()].tolist() for ids, mask in pairs]


def in_table(logs: Any) -> list[Row]:
    """Prompt, completion, extra columns, advantage and rewards of each row."""
    words = [logs["prompt"], logs["completion"], *logs["extra"].values()]
    numbers = [logs["advantages"], *logs["rewards"].values()]
    pairs = zip(zip(*words, strict=True), zip(*numbers, strict=True), strict=True)
    return sorted(Row(str(said), [*worth]) for said, worth in pairs)


def settings(case: Case, folder: Path) -> dict[str, Any]:
    shape = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}
    given = arguments(folder, rollouts=16, size=SIZE, max_completion_length=14, **shape)
    return given | {"logging_steps": 1} | case.settings


def rows(case: Case) -> Dataset:
    asked = [[{"role": "user", "content": p}] for p in PROMPTS] if case.chat else PROMPTS
    notes = [{"of": prompt} for prompt in PROMPTS]
    return Dataset.from_dict({"prompt": asked, "limit": LIMITS, "notes": notes})


def train_ours(model: str, case: Case, *, folder: Path) -> Any:
    filters = {"filters": {"advantage": case.filter}} if case.filter else {}
    trainer = Ours(
        model,
        reward_funcs=case.rewards,
        args=GRPOConfig(**settings(case, folder)),
        train_dataset=rows(case),
        strategy={"name": "grpo", **filters},
        engine={"name": "fake", **case.engine},
    )
    train_stock(trainer)
    return trainer


def train_theirs(model: str, case: Case, *, folder: Path, made: Path) -> Any:
    left = iter(sorted((made / "rollouts").glob("update-*.parquet")))

    def replayed(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        groups = sorted(read_update(next(left)).groups, key=lambda g: int(g.prompt.id))
        flat = [r for group in groups for r in group.rollouts]
        return {
            "prompt_ids": [list(r.prompt.tokens) for r in flat],
            "completion_ids": [r.tokens_T.tolist() for r in flat],
            "logprobs": [r.logprobs_T.tolist() for r in flat],
        }

    trainer = Theirs(
        model=model,
        reward_funcs=case.rewards,
        args=GRPOConfig(**settings(case, folder) | case.stock),
        train_dataset=rows(case),
        rollout_func=replayed,
    )
    train_stock(trainer)
    return trainer


def same(own: list[Row], his: list[Row]) -> None:
    """Whether rows are equal, numbers to single precision."""
    assert [row.said for row in own] == [row.said for row in his]
    for row, other in zip(own, his, strict=True):
        assert row.numbers == pytest.approx(other.numbers, rel=1e-6, abs=1e-6, nan_ok=True)


def means(trainer: Any) -> list[dict[str, float]]:
    """What is logged of the rewards of each update; NaN for what TRL has no figure for."""
    entries = [entry for entry in trainer.state.log_history if "loss" in entry]
    return [
        {
            k: math.nan if v is None else v
            for k, v in e.items()
            if k.startswith(("reward", "longest"))
        }
        for e in entries
    ]


@pytest.mark.parametrize("name", CASES)
def test_rewards_are_worth_what_they_are_in_stock_trl(
    model: str, chat: str, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    used = chat if case.chat else model
    own = train_ours(used, case, folder=tmp_path / "ours")
    his = train_theirs(used, case, folder=tmp_path / "theirs", made=tmp_path / "ours")
    assert len(own.told) == len(his.told) == 2
    for mine, theirs in zip(own.told, his.told, strict=True):
        for ours, stock in zip(mine, theirs, strict=True):
            if case.unscored:
                assert len(ours) == 12 and len(stock) == 16
            same(ours, [row for row in stock if row.numbers[0] or not case.unscored])
    for mine, theirs in zip(means(own), means(his), strict=True):
        assert {k: mine.get(k) for k in theirs} == pytest.approx(
            theirs, rel=1e-6, abs=1e-6, nan_ok=True
        )


def test_a_scale_over_the_batch_is_refused_with_what_to_give(model: str, tmp_path: Path) -> None:
    case = Case(rewards=[lengths], settings={"scale_rewards": "batch"})
    words = "scale_rewards='batch': advantages are the strategy's: leave it out"
    with pytest.raises(ConfigError, match=re.escape(words)):
        train_ours(model, case, folder=tmp_path)
