"""Overlong filtering."""

import numpy as np

from gfcr import strategy as strategies
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.truncation_gate import TruncationGate
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Group
from tests.cases import over


@over(
    ("finish", "passes", "without_halted"),
    [
        (FinishReason.STOP, True, True),
        (FinishReason.LENGTH, False, False),
        (FinishReason.HALTED, True, False),
        (FinishReason.ENDED, True, True),
    ],
)
def test_it_is_about_how_a_rollout_ended(
    finish: FinishReason, passes: bool, without_halted: bool
) -> None:
    rollout, view = make.rollout(finish=finish), make.view()
    assert TruncationGate().passes(rollout, view=view) == passes
    assert TruncationGate(halted=True).passes(rollout, view=view) == without_halted


def _group() -> Group:
    ends = [FinishReason.STOP, FinishReason.STOP, FinishReason.LENGTH, FinishReason.LENGTH]
    pairs = zip(ends, [1.0, 0.0, 0.0, 0.0], strict=True)
    return make.group_of([make.rollout(i, finish=f, reward=r) for i, (f, r) in enumerate(pairs)])


def test_its_place_says_what_the_others_are_compared_with() -> None:
    gate, map_, view = TruncationGate(), GroupAdvantage(kind="dr_grpo"), make.view()
    before = map_.apply(gate.apply(_group(), view=view), view=view)
    behind = gate.apply(map_.apply(_group(), view=view), view=view)
    assert [s.advantage for s in before.signals if s.rejected is None] == [0.5, -0.5]
    assert [s.advantage for s in behind.signals if s.rejected is None] == [0.75, -0.25]


def test_the_strategy_trains_what_ended_with_the_advantages_of_grpo() -> None:
    plain = make.pipeline(strategies.load("grpo"), max_tokens=12).next_batch()
    batch = make.pipeline(strategies.load("overlong_filtering"), max_tokens=12).next_batch()
    cut = [r for g in batch.groups for r in g.rollouts if r.finish == FinishReason.LENGTH]
    assert 0 < len(cut) == batch.metrics["rejected/truncation_gate"] < 64
    assert batch.metrics["rollouts/trained"] == 64 - len(cut)
    advantages = {s.rollout.id: s.advantage_T for s in plain.samples}
    for sample in batch.samples:
        assert sample.rollout.finish == FinishReason.STOP
        np.testing.assert_array_equal(sample.advantage_T, advantages[sample.rollout.id])


def test_where_all_are_cut_the_group_is_rejected_and_the_batch_goes_on() -> None:
    batch = make.pipeline(strategies.load("overlong_filtering"), max_tokens=3).next_batch()
    dead = [g for g in batch.groups if all(r.finish == "length" for r in g.rollouts)]
    assert dead and {g.rejected for g in dead} == {"truncation_gate"}
