"""The oldest groups once more: a first-in, first-out replay of whole groups."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import final

from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Harvest, Plan, Planner, Replay, View
from gfcr.strategy import Strategy
from gfcr.types import Group
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Fifo(Replay, Planner):
    """Keeps the last `capacity` groups, and gives the `num` oldest of them to each batch."""

    num: Count = 2
    capacity: Count = 8
    kept: list[Group] = field(init=False, default_factory=list[Group])

    def plan(self, plan: Plan, *, view: View) -> Plan:
        """See `Planner.plan`."""
        if view.round:
            return plan
        again, self.kept = self.kept[: self.num], self.kept[self.num :]
        jobs = [view.job(g.prompt, num_samples=len(g.rollouts)) for g in again]
        return plan.add(replace(j, resume=g.rollouts) for j, g in zip(jobs, again, strict=True))

    def store(self, harvest: Harvest, *, view: View) -> None:
        """See `Replay.store`."""
        fresh = [g for g in harvest.groups if g.rollouts and g.rollouts[0].origin == "fresh"]
        self.kept = [*self.kept, *fresh][-self.capacity :]

    def holds(self) -> Iterable[str]:
        """See `Replay.holds`."""
        return [r.id for g in self.kept for r in g.rollouts]


def fifo_replay(*, group_size: int = 4, num: int = 2, capacity: int = 8) -> Strategy:
    """GRPO on new groups and on the oldest of the last ones."""
    return Strategy(
        name="fifo_replay",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        replays={"fifo": Fifo(num=num, capacity=capacity)},
        group_size=group_size,
        correction=Truncated(),
    )
