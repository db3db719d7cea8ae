"""Dynamic sampling: draws more prompts until the batch is full."""

from collections import Counter
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, ClassVar, Literal, final

from annotated_types import Interval

from gfcr.errors import BatchCannotFill
from gfcr.stages import Control, Plan, Planner, View
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Refill(Control, Planner):
    """Refills the batch with fresh prompts while accepted groups are missing.

    DAPO's dynamic sampling: rounds of `oversample` x (missing groups) until the target is met.
    Costs tokens when few groups pass; log `controls.refill/rounds`.
    """

    paper: ClassVar[str] = "2503.14476"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "P"

    max_rounds: Count = 10
    """Rounds of generation an update may take, the first one included."""
    oversample: Annotated[float, Interval(ge=1, le=1000)] = 1.0
    """Groups begun for each missing one."""
    when_spent: Literal["error", "short"] = "error"
    """After `max_rounds`: stop the run, or train on what there is."""
    rounds: int = field(init=False, default=0)

    def plan(self, plan: Plan, *, view: View) -> Plan:
        """See `Planner.plan`."""
        missing = plan.target - view.num_accepted
        if plan.in_flight:  # a round is judged as a whole, as in the paper
            return plan
        if view.round >= self.max_rounds:
            self._spent(view)
            return plan
        self.rounds = view.round + 1
        return replace(plan, num_groups=max(plan.num_groups, ceil(missing * self.oversample)))

    def metrics(self) -> dict[str, float]:
        """Rounds the last batch took."""
        return {"rounds": float(self.rounds)}

    def _spent(self, view: View) -> None:
        if self.when_spent == "short" and view.num_accepted:
            return
        reasons = Counter(g.rejected for g in view.groups if g.rejected)
        counted = ", ".join(f"{num} {reason}" for reason, num in reasons.most_common())
        raise BatchCannotFill(
            f"update {view.step}: {view.num_accepted} of {view.target} groups were accepted after "
            f"refill.max_rounds={self.max_rounds} rounds of {len(view.groups)} groups in all; "
            f"rejected: {counted}. The task may be too easy or too hard for the "
            "model: raise strategy.group_size, loosen the filter, raise "
            "strategy.controls.refill.max_rounds or set strategy.controls.refill.when_spent=short."
        )
