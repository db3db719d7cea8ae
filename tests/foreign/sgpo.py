"""sGPO (arXiv 2606.08854): one pass over all prompts says how many rollouts each is worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import (
    Allocator,
    Control,
    Job,
    Plan,
    Planner,
    Referee,
    Retire,
    Selector,
    View,
)
from gfcr.strategy import Strategy
from gfcr.types import Group, Prompt
from gfcr.values.ranges import Count, Share


@final
@dataclass(kw_only=True)
class Profile(Control, Planner, Selector, Allocator, Referee):
    """Profiles each prompt once, then asks from easy to hard, 1 / p rollouts of rate p each.

    Prompts that are always right are left out, and of those never right a share is kept.
    """

    probes: Count = 4
    least: Count = 2
    most: Count = 8
    unsolved: Share = 0.5
    rates: dict[str, float] = field(init=False, default_factory=dict[str, float])
    order: list[Prompt] = field(init=False, default_factory=list[Prompt])
    asked: int = field(init=False, default=0)

    def plan(self, plan: Plan, *, view: View) -> Plan:
        """See `Planner.plan`."""
        if not self.order:
            self.order = view.draw(view.num_prompts)
            jobs = [view.job(p, num_samples=self.probes) for p in self.order]
            probes = [replace(job, notes={"profile": 1.0}) for job in jobs]
            return replace(plan.add(probes), num_groups=len(probes))
        return plan if plan.in_flight else replace(plan, num_groups=plan.missing)

    def decide(self, group: Group, *, view: View) -> Retire | None:
        """See `Referee.decide`."""
        if not group.values.get("profile"):
            return None
        right = [(r.reward or 0.0) > 0 for r in group.rollouts]
        self.rates[group.prompt.id] = sum(right) / len(right)
        return Retire(reason="profiled")

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        """See `Selector.select`."""
        if not self.asked:
            self.order = self._curriculum() or self.order
        self.asked += num
        return [self.order[i % len(self.order)] for i in range(self.asked - num, self.asked)]

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        """See `Allocator.allocate`."""
        return [j if j.notes else replace(j, num_samples=self._size(j.prompt)) for j in jobs]

    def metrics(self) -> Mapping[str, float]:
        """Prompts that were profiled, and those of the curriculum."""
        return {"profiled": float(len(self.rates)), "kept": float(len(self.order))}

    def _size(self, prompt: Prompt) -> int:
        rate = self.rates.get(prompt.id, 0.0)
        return min(max(round(1 / rate), self.least), self.most) if rate else self.most

    def _curriculum(self) -> list[Prompt]:
        never = [p for p in self.order if not self.rates.get(p.id)]
        some = [p for p in self.order if 0 < self.rates.get(p.id, 0.0) < 1]
        easy_first = sorted(some, key=lambda p: -self.rates[p.id])
        return [*easy_first, *never[: round(len(never) * self.unsolved)]]


def sgpo(*, probes: int = 4, least: int = 2, most: int = 8, unsolved: float = 0.5) -> Strategy:
    """Sorted group policy optimisation; the bounds and the share kept of the unsolved are ours."""
    return Strategy(
        name="sgpo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"profile": Profile(probes=probes, least=least, most=most, unsolved=unsolved)},
        group_size=most,
    )
