"""Screens prompts with a few rollouts and samples the rest where these differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from gfcr.control._rounds import uncounted
from gfcr.errors import BatchCannotFill
from gfcr.handles.prompts import rewards
from gfcr.part import Recipe
from gfcr.stages import (
    Control,
    Harvest,
    Observer,
    Plan,
    Planner,
    Referee,
    Retire,
    SampleMore,
    View,
)
from gfcr.types import Group
from gfcr.values.ranges import Count, Natural


@final
@dataclass(kw_only=True)
class Speed(Control, Planner, Referee, Observer):
    """Samples `more` rollouts of a prompt whose first ones, a group's size, are not all alike.

    The others are retired as `screened_out` and replaced at once, so that prompts are screened in
    the same engine steps in which accepted ones are continued. With n rollouts to screen a prompt
    of success rate p, it passes with probability q = 1 - p^n - (1 - p)^n; a trained prompt costs
    `more` + n / q rollouts, all of which are trained on but the (1 / q - 1) n of the screened out.

    Hurts where most prompts have signal: screening then only takes time, because a group waits for
    its first rollouts before the rest begins; and it favours success rates near 1/2.
    """

    paper: ClassVar[str] = "2506.09016"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "P"
    one_batch: ClassVar[bool] = True

    more: Count = 20
    """Rollouts of a prompt that passed, beside the first (N_cont; N_init is the group size)."""
    ahead: Natural = 0
    """Prompts begun beyond the batch. What of them is not done when it is full is lost, unless a
    Replay part such as `partial_rollouts` keeps it for the next one, as in the paper."""
    patience: Count = 64
    """Prompts screened in an update for each one wanted, at most."""
    passed: set[str] = field(init=False, default_factory=set[str])
    """Groups of the batch that were continued."""
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return uncounted(strategy)

    def plan(self, plan: Plan, *, view: View) -> Plan:
        # What was planned before may not have been begun: a budget holds groups back.
        begun = len(view.groups) + plan.in_flight
        left = self.patience * plan.target - begun
        if left <= 0:
            if not view.num_accepted and not plan.in_flight:
                raise BatchCannotFill(
                    f"update {view.step + 1}: none of {begun} prompts had both right and "
                    f"wrong answers among {view.group_size} rollouts (speed.patience="
                    f"{self.patience} for each one wanted). The task may be too easy or too hard "
                    "for the model: raise strategy.group_size or strategy.controls.speed.patience."
                )
            return plan
        more = min(plan.missing + self.ahead, left)
        return replace(plan, num_groups=max(plan.num_groups, more))

    def decide(self, group: Group, *, view: View) -> SampleMore | Retire | None:
        scored = rewards(group)
        # One that was continued in an earlier batch has more; of one continued in this batch a
        # Watcher may have left no more. Without a reward the group is unscorable, not dead.
        if group.id in self.passed or len(group.rollouts) > view.group_size or not scored:
            return None
        if np.ptp(scored) <= 1e-6:
            return Retire(reason="screened_out")
        self.passed.add(group.id)
        return SampleMore(num_samples=self.more)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        out = sum(g.rejected == "screened_out" for g in harvest.groups)
        continued = sum(len(g.rollouts) > view.group_size for g in harvest.groups)
        self.last = {
            "screened": float(out + continued),
            "passed": continued / max(out + continued, 1),
        }
        self.passed.clear()

    def metrics(self) -> Mapping[str, float]:
        """Prompts screened for the last batch, and the share of them that passed."""
        return self.last
