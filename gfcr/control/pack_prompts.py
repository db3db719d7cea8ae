"""Updates of more prompts, where filters leave few rollouts of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.stages import Control, Plan, Planner, View


@final
@dataclass(kw_only=True)
class PackPrompts(Control, Planner):
    """Fills an update with 1 / (1 - `prune`) x the prompts: CPPO's allocation of completions.

    Where a filter prunes that share of each group, the update is as large as without it. Whole
    groups are generated for each prompt: the update is fuller, not cheaper.

    Hurts when generation is the bottleneck: it pays for 1 / (1 - `prune`) x the rollouts.
    """

    paper: ClassVar[str] = "2503.22342"
    cell: ClassVar[str] = "C6.3"
    origin: ClassVar[str] = "P"

    prune: Annotated[float, Interval(ge=0, le=0.999)] = 0.5
    """Share of a group that filters leave out."""
    target: int = field(init=False, default=0)

    def plan(self, plan: Plan, *, view: View) -> Plan:
        if view.round:
            return plan
        # Float noise must not make one prompt more of a whole number.
        self.target = ceil(plan.target / (1 - self.prune) - 1e-9)
        more = self.target - plan.target
        return replace(plan, target=self.target, num_groups=plan.num_groups + more)

    def metrics(self) -> Mapping[str, float]:
        """Prompts of the last update."""
        return {"target": float(self.target)}
