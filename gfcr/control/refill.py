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
    Costs tokens when few groups pass; see the metrics `rounds` and `batches`.
    """

    paper: ClassVar[str] = "2503.14476"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "P"

    max_rounds: Count = 10
    """Batches' worth of groups that an update may begin, the first one included: the authors'
    rounds are of whole batches, ours of what is missing."""
    oversample: Annotated[float, Interval(ge=1, le=1000)] = 1.0
    """Groups begun for each missing one."""
    when_spent: Literal["error", "short"] = "error"
    """After `max_rounds`: stop the run, or train on what there is."""
    rounds: int = field(init=False, default=0)
    batches: float = field(init=False, default=0.0)

    def plan(self, plan: Plan, *, view: View) -> Plan:
        missing = plan.target - view.num_accepted
        if plan.in_flight:  # a round is judged as a whole, as in the paper
            return plan
        left = self.max_rounds * plan.target - len(view.groups)
        if left <= 0:
            self._spent(view)
            return plan
        begun = max(plan.num_groups, min(ceil(missing * self.oversample - 1e-9), left))
        self.rounds = view.round + 1
        self.batches = (len(view.groups) + begun) / plan.target
        return replace(plan, num_groups=begun)

    def metrics(self) -> dict[str, float]:
        """Rounds the last batch took, and how many batches' worth of groups were begun."""
        return {"rounds": float(self.rounds), "batches": self.batches}

    def _spent(self, view: View) -> None:
        if self.when_spent == "short" and view.num_accepted:
            return
        reasons = Counter(g.rejected for g in view.groups if g.rejected)
        counted = ", ".join(f"{num} {reason}" for reason, num in reasons.most_common())
        raise BatchCannotFill(
            f"update {view.step + 1}: {view.num_accepted} of {view.target} groups were accepted "
            f"after {len(view.groups)} groups in all (refill.max_rounds={self.max_rounds} batches)"
            f"; rejected: {counted}. The task may be too easy or too hard for the "
            "model: raise strategy.group_size, loosen the filter, raise "
            "strategy.controls.refill.max_rounds or set strategy.controls.refill.when_spent=short."
        )
