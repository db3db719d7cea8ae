"""Forced where the budget is spent without an answer, and what is appended is not trained."""

from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.generate.budget_forcing import BudgetForcing
from gfcr.testing import factories as make
from gfcr.types import FinishReason, RolloutBatch
from tests.cases import over

HASH = make.CODEC.encode("#")[0]


class Special:
    """Has `#` for a special token."""

    def __getattr__(self, name: str) -> Any:
        return getattr(make.CODEC, name)

    def encode(self, text: str) -> tuple[int, ...]:
        return (3,) if text == "#" else make.CODEC.encode(text)


def run(text_of: Any, **knobs: Any) -> RolloutBatch:
    plan = strategies.load("budget_forcing", **{"group_size": 4, "thinking": 0.5, **knobs})
    return make.pipeline(plan, script=make.scripted(text_of), max_tokens=20).next_batch()


def test_long_thinking_is_ended_at_the_budget_and_answered() -> None:
    def text_of(request: Any) -> str:
        return "12" if HASH in request.tokens else "7" * 50

    for sample in run(text_of).samples:
        rollout = sample.rollout
        assert rollout.text == "7777777777#12" and rollout.finish == FinishReason.STOP
        assert rollout.notes["forced"] == 1.0
        assert np.flatnonzero(~rollout.mask_T).tolist() == [10]
        assert rollout.logprobs_T[10] == 0 and sample.advantage_T[10] == 0


@over("text", ["7#12", "777#127777777", "777777777"])
def test_who_answers_or_ends_in_time_is_left_alone(text: str) -> None:
    for rollout in (s.rollout for s in run(lambda request: text).samples):
        assert rollout.notes["forced"] == 0.0 and rollout.mask_T.all()
    # A marker may be a special token, which no text tells of.
    codec: Any = Special()
    script = [*make.CODEC.encode("777"), *codec.encode("#"), *make.CODEC.encode("7" * 9)]
    made = make.pipeline(
        strategies.load("budget_forcing", group_size=4, thinking=0.5),
        codec=codec,
        script=lambda request: [*script, codec.eos_id],
        max_tokens=20,
    )
    assert {s.rollout.notes["forced"] for s in made.next_batch().samples} == {0.0}


def test_a_marker_of_several_tokens_is_appended_whole() -> None:
    marker = make.CODEC.encode("=#")

    def text_of(request: Any) -> str:
        return "5" if request.tokens[-2:] == marker else "7" * 50

    batch = run(text_of, marker="=#", thinking=0.2)
    assert {s.rollout.text for s in batch.samples} == {"7777=#5"}


def test_a_marker_that_leaves_no_room_ends_the_rollout() -> None:
    batch = run(lambda request: "7" * 50, marker="=" * 11)
    for rollout in (s.rollout for s in batch.samples):
        assert len(rollout) == 10 and rollout.finish == FinishReason.LENGTH


def test_cut_rollouts_are_forced_once_when_they_go_on() -> None:
    def text_of(request: Any) -> str:
        return "12" if HASH in request.tokens else "7" * (int(request.slot[1:]) * 5 + 1)

    plan = strategies.load(
        "budget_forcing",
        group_size=4,
        thinking=0.5,
        controls={"oversample": {"name": "oversample"}},
        replays={"partial": {"name": "partial_rollouts"}},
        correction={"name": "truncated"},
    )
    pipeline = make.pipeline(plan, script=make.scripted(text_of), max_tokens=20, prompts=2)
    for _ in range(3):
        for rollout in (s.rollout for s in pipeline.next_batch().samples):
            assert (~rollout.mask_T).sum() == rollout.notes["forced"] == rollout.text.count("#")


def test_a_marker_without_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"budget_forcing\.marker='x' has no tokens"):
        BudgetForcing(marker="x").check(lambda text: ())


@over("bad", [{"thinking": 0.0}, {"thinking": 1.0}, {"marker": ""}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"BudgetForcing.{next(iter(bad))}="):
        BudgetForcing(**bad)
