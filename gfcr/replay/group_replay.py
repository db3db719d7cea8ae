"""Groups that taught something stand in for dead ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from gfcr.replay._whole import again, kept_rollouts
from gfcr.stages import Harvest, Plan, Planner, Replay, View
from gfcr.types import Group, Prompt, Rollout
from gfcr.values.ranges import Count, Natural


@dataclass(kw_only=True)
class Kept:
    """A group in memory."""

    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    priority: float
    """Sum of |A| over its rollouts, times the deviation of their rewards."""
    step: int
    """Update it was last trained in."""
    uses: int = 0


@final
@dataclass(kw_only=True)
class GroupReplay(Replay, Planner):
    """Fills the places of rejected groups with earlier ones, those of highest priority first.

    What is accepted is kept, with the priority sum |A| x std(r), the `capacity` best of it. Where a
    batch then lacks groups, as a filter such as `zero_variance` rejected them, kept groups take
    their places as they are, with the log-probs they were sampled with: nothing is sampled for
    them. A group is replayed `reuses` times at most, rests for `cooldown` updates behind each
    training, and is forgotten `max_age` updates after it was made. Rollouts that filters rejected
    are not kept: in its next training a map compares those that are left.

    This is the replay of groups with a variance that TRL's trainer had and lost. Put nothing beside
    it that fills batches, such as `refill`. Hurts as the policy moves away from what is kept: train
    with a `correction`.
    """

    cell: ClassVar[str] = "R7.2"
    origin: ClassVar[str] = "ours"

    capacity: Count = 64
    reuses: Count = 2
    cooldown: Natural = 0
    max_age: Count = 8
    kept: list[Kept] = field(init=False, default_factory=list[Kept])
    replayed: int = field(init=False, default=0)
    """Groups replayed in the last batch."""

    def plan(self, plan: Plan, *, view: View) -> Plan:
        if view.round == 0:
            self.replayed = 0
            return plan
        lacking = plan.missing - plan.num_groups
        ready = [k for k in self.kept if self._is_ready(k, step=view.step)]
        chosen = sorted(ready, key=lambda k: -k.priority)[: max(lacking, 0)]
        for kept in chosen:
            kept.uses, kept.step = kept.uses + 1, view.step
        self.replayed += len(chosen)
        jobs = [again(kept.rollouts, view=view) for kept in chosen]
        return replace(plan.add(jobs), num_groups=plan.num_groups + len(jobs))

    def store(self, harvest: Harvest, *, view: View) -> None:
        now = harvest.step
        self.kept = [k for k in self.kept if k.uses < self.reuses and now - _made(k) < self.max_age]
        self.kept += [
            Kept(prompt=group.prompt, rollouts=kept_rollouts(group), priority=priority, step=now)
            for group in harvest.groups
            if group.rejected is None
            # One that was replayed is kept already: kept anew, `reuses` would not bound it.
            and all(r.origin == "fresh" for r in group.rollouts)
            and (priority := _priority(group)) > 0
        ]
        self.kept = sorted(self.kept, key=lambda k: -k.priority)[: self.capacity]

    def holds(self) -> Iterable[str]:
        return [r.id for kept in self.kept for r in kept.rollouts]

    def metrics(self) -> Mapping[str, float]:
        """Groups replayed in the last batch, and groups in memory."""
        return {"replayed": float(self.replayed), "kept": float(len(self.kept))}

    def _is_ready(self, kept: Kept, *, step: int) -> bool:
        # Several batches may be in the making: what one has used up is forgotten when it ends.
        usable = kept.uses < self.reuses and step - _made(kept) <= self.max_age
        return usable and step - kept.step > self.cooldown


def _made(kept: Kept) -> int:
    return kept.rollouts[0].step


def _priority(group: Group) -> float:
    advantages = [s.advantage for s, k in zip(group.signals, group.kept_N, strict=True) if k]
    sizes = [float(np.abs(np.asarray(a, np.float64)).mean()) for a in advantages if a is not None]
    return float(sum(sizes) * group.rewards_N[group.kept_N].std()) if sizes else 0.0
