"""S-GRPO's serial groups: where a thought is left, and what its answers are paid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.exit_reward import ExitReward
from gfcr.generate.serial_exits import SerialExits
from gfcr.testing import factories as make
from tests.cases import over
from tests.trees import trunk_is_generated_once

MARKER = make.CODEC.encode("#")
JOINED = 3


class Joins:
    """Has a token for `,#`, which it encodes nothing with."""

    def __getattr__(self, name: str) -> Any:
        return getattr(make.CODEC, name)

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(",#" if t == JOINED else make.CODEC.decode([t]) for t in tokens)


def left(text: str | None = None, **knobs: Any) -> tuple[Any, Any]:
    script = None if text is None else make.scripted(lambda _: text)
    pipeline = make.pipeline(strategies.load("s_grpo", **knobs), script=script, prompts=3)
    return pipeline, pipeline.next_batch()


def test_a_thought_is_left_at_different_places_and_generated_once() -> None:
    knobs = {"exits": 4, "answer_tokens": 3, "group_size": 2}
    pipeline, batch = left("1+2=3,3+4=7", **knobs)
    trunk_is_generated_once(pipeline, batch)
    for group in batch.groups:
        thoughts = [r for r in group.rollouts if r.parent is None]
        assert len(thoughts) == 2 and len(group.rollouts) == 2 * 5 == SerialExits(exits=4).rollouts(
            2
        )
        for thought in thoughts:
            own = [r for r in group.rollouts if r.parent == thought.id]
            places = [r.fork_at for r in own]
            assert len(set(places)) == 4 and 0 < min(places) <= max(places) < len(thought)
            for rollout in own:
                at, num = rollout.fork_at, len(MARKER)
                assert rollout.notes["exit"] == at < thought.notes["exit"]
                assert tuple(rollout.tokens_T[at : at + num]) == MARKER
                assert not rollout.mask_T[at : at + num].any() and rollout.mask_T[at + num :].all()
                assert 0 < len(rollout) - at - num <= 3


def test_a_thought_is_over_at_its_own_marker() -> None:
    _, batch = left("1+2=3#3,9,9,9,9,9", exits=8)
    for rollout in (r for g in batch.groups for r in g.rollouts):
        assert rollout.notes["exit"] <= 5 and rollout.fork_at < 5
    _, batch = left("#3,9,9", exits=8)
    assert {(len(g.rollouts), g.rollouts[0].notes["exit"]) for g in batch.groups} == {(1, 0.0)}
    # The marker is a text: a model writes it with other tokens behind other words.
    codec: Any = Joins()
    plan = strategies.load("s_grpo", exits=8)
    answered = [*MARKER, make.CODEC.eos_id]
    script = [*make.CODEC.encode("1+2"), JOINED, *make.CODEC.encode("3,9,9"), *answered]
    made = make.pipeline(plan, codec=codec, script=lambda _: script, prompts=3)
    for group in made.next_batch().groups:
        assert (group.rollouts[0].notes["exit"], len(group.rollouts)) == (3.0, 3)


def test_a_short_thought_has_fewer_exits() -> None:
    _, batch = left("12", exits=8)
    assert all(1 < len(g.rollouts) < 5 for g in batch.groups)


def test_a_marker_that_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"serial_exits\.marker='~' has no tokens"):
        SerialExits(marker="~").check(lambda text: ())


@over(
    ("exits", "rewards", "paid"),
    [
        ([3, 5, 9, 12], [1, 1, 1, 1], [1, 0.5, 0.25, 0.125]),
        ([3, 5, 9, 12], [0, 1, 0, 1], [0, 1, 0, 0.5]),
        ([12, 5, 9, 3], [1, 1, 0, 0], [0.5, 1, 0, 0]),
        ([3, 5, 9, 12], [0, None, 1, 1], [0, None, 1, 0.5]),
        ([None, 5, 9, 12], [1, 1, 1, 1], [0.125, 1, 0.5, 0.25]),
    ],
)
def test_earlier_right_answers_are_paid_more(
    exits: list[int | None], rewards: list[float | None], paid: list[float | None]
) -> None:
    notes = [{} if at is None else {"exit": float(at)} for at in exits]
    pairs = enumerate(zip(rewards, notes, strict=True))
    group = make.group_of([make.rollout(i, reward=r, notes=n) for i, (r, n) in pairs])
    shaped = ExitReward().apply(group, view=make.view())
    assert [s.reward for s in shaped.signals] == paid


def test_an_exit_that_a_gate_rejected_is_not_counted() -> None:
    rollouts = [make.rollout(i, reward=1.0, notes={"exit": float(i)}) for i in range(3)]
    group = make.group_of(rollouts).reject_rollouts([0], reason="form")
    shaped = ExitReward().apply(group, view=make.view())
    assert [s.reward for s in shaped.signals][1:] == [1.0, 0.5]
    # Nor among a group's own is one that is recalled, which left another thought.
    old = make.rollout(9, notes={"exit": 0.0}, group_id="h", origin="replay")
    shaped = ExitReward().apply(make.group_of([*rollouts, old]), view=make.view())
    assert [s.reward for s in shaped.signals] == [1.0, 0.5, 0.25, 1.0]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.floats(0.01, 1))
def test_the_kth_right_answer_is_paid_the_kth_power(right: list[bool], decay: float) -> None:
    rollouts = [make.rollout(i, reward=float(r), notes={"exit": i}) for i, r in enumerate(right)]
    shaped = ExitReward(decay=decay).apply(make.group_of(rollouts), view=make.view())
    paid = [s.reward for s in shaped.signals if s.reward]
    np.testing.assert_allclose(paid, decay ** np.arange(sum(right)), rtol=1e-9)
    assert all((s.reward or 0) > 0 or not r for s, r in zip(shaped.signals, right, strict=True))
