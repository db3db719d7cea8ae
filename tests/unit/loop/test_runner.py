"""The event loop when parts misbehave: nothing is left running, nothing is lost."""

from dataclasses import dataclass
from typing import Any

import pytest

from gfcr.errors import GfcrError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Abort, Cap, Control, Generate, Halt, Session, Watcher
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import FinishReason
from tests.cases import over


def pipeline(generate: Generate, *, watcher: Any = None, **changes: Any) -> Any:
    plan = Strategy(
        name="t",
        generate=generate,
        filters={"advantage": GroupAdvantage()},
        controls={"w": watcher} if watcher else {},
        group_size=4,
    )
    return make.pipeline(plan, **{"engine": {"mean_length": 1e9}, "prompts": 2, **changes})


def settled(pipeline: Any) -> bool:
    """Whether the engine is idle and the ledger knows of every token."""
    bins = pipeline.ledger.bins()
    generated = pipeline.engine.stats().generated_tokens
    return (
        not pipeline.engine.step() and "in_flight" not in bins and generated == sum(bins.values())
    )


@dataclass(kw_only=True)
class _OneFails(Generate):
    async def run(self, session: Session) -> None:
        opened = [session.open(i) for i in range(session.job.num_samples)]
        await session.gather(*(self._one(t, i) for i, t in enumerate(opened)))

    async def _one(self, trajectory: Any, index: int) -> None:
        await trajectory.sample(max_tokens=2)
        if index == 1:
            raise RuntimeError("tool broke")
        await trajectory.sample()


def test_one_of_many_that_fails_costs_itself_alone() -> None:
    run = pipeline(_OneFails(), max_tokens=9)
    batch = run.next_batch()
    for group in batch.groups:
        finishes = [r.finish for r in group.rollouts]
        assert finishes == [FinishReason.LENGTH, FinishReason.ERROR, *[FinishReason.LENGTH] * 2]
        assert [len(r) for r in group.rollouts] == [9, 2, 9, 9]
    assert settled(run)


@dataclass(kw_only=True)
class _Impatient(Generate):
    fails: bool

    async def run(self, session: Session) -> None:
        opened = [session.open(i) for i in range(session.job.num_samples)]
        for trajectory in opened[1:]:
            trajectory.sample()
        await opened[0].sample(max_tokens=3)
        if self.fails:
            raise RuntimeError("tool broke")


@over("fails", [False, True])
def test_requests_that_nobody_awaits_are_dropped(fails: bool) -> None:
    run = pipeline(_Impatient(fails=fails))
    if fails:
        with pytest.raises(GfcrError, match="tool broke"):
            run.next_batch()
        assert not run.engine.step()
        return
    batch = run.next_batch()
    assert [len(r) for g in batch.groups for r in g.rollouts] == [3] * 8
    assert {r.finish for g in batch.groups for r in g.rollouts} == {FinishReason.LENGTH}
    assert settled(run)


@dataclass(kw_only=True)
class _Turns(Generate):
    async def run(self, session: Session) -> None:
        trajectory = session.open(0)
        await trajectory.sample(max_tokens=5)
        await trajectory.sample()


@dataclass(kw_only=True)
class _Rule(Control, Watcher):
    at: int
    action: Any

    def watch(self, trajectory: Any, *, new: int, view: Any) -> Halt | Abort | Cap | None:
        return self.action if len(trajectory.tokens) == self.at else None


def test_a_cap_says_how_many_more_tokens_the_running_request_may_sample() -> None:
    run = pipeline(_Turns(), watcher=_Rule(at=8, action=Cap(max_tokens=4)), max_tokens=30)
    batch = run.next_batch()
    assert [len(r) for g in batch.groups for r in g.rollouts] == [12] * 2
    assert settled(run)


def test_an_aborted_trajectory_leaves_its_group_and_stays_accounted_for() -> None:
    class Second(_Rule):
        def watch(self, trajectory: Any, *, new: int, view: Any) -> Any:
            return self.action if trajectory.id.endswith("/1") else None

    rule = Second(at=0, action=Abort(reason="enough"))
    run = pipeline(Sample(), watcher=rule, max_tokens=6)
    batch = run.next_batch()
    assert [len(g.rollouts) for g in batch.groups] == [3, 3]
    assert [(r.finish, len(r)) for r in batch.aborted] == [(FinishReason.ABORTED, 1)] * 2
    assert run.ledger.bins() == {"trained": 36, "aborted": 2} and settled(run)
