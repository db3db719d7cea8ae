"""Begins more groups than the batch needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.stages import Control, Plan, Planner, View


@final
@dataclass(kw_only=True)
class Oversample(Control, Planner):
    """Begins `factor` x the batch's groups; the batch is full with the first ones to finish.

    The rest is cut then, so that no update waits for the longest rollouts. Their tokens are lost
    (`aborted`) unless a Replay part such as `partial_rollouts` resumes them.

    Hurts without one: a batch of the first to finish is a batch of short rollouts.
    """

    paper: ClassVar[str] = "2509.18521"
    cell: ClassVar[str] = "C6.5"
    origin: ClassVar[str] = "P"

    factor: Annotated[float, Interval(ge=1, le=1000)] = 2.0
    """Groups begun for each one trained on (the paper: 64 for 32)."""
    begun: int = field(init=False, default=0)

    def plan(self, plan: Plan, *, view: View) -> Plan:
        if view.round:
            return plan
        # Float noise must not begin one group more: 1.1 * 110 is 121.00000000000001.
        num_groups = max(plan.num_groups, ceil(plan.target * self.factor - 1e-9) - plan.in_flight)
        self.begun = max(num_groups, len(plan.jobs))
        return replace(plan, num_groups=num_groups)

    def metrics(self) -> Mapping[str, float]:
        """Groups begun in the first round of the last batch."""
        return {"begun": float(self.begun)}
