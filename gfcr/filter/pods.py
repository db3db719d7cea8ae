"""Policy optimisation with down-sampling: trains on the most varied rollouts of a group."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.handles.subsets import max_variance
from gfcr.stages import Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class Pods(Filter):
    """Keeps the `keep` rollouts whose rewards vary most; the others are rejected as `pods`.

    Of n rewards, sorted, the subset of m with the largest variance is the i lowest and the m - i
    highest for some i. Put the advantage map after it: mean and deviation are then the subset's.

    Hurts when generation, not the update, is the bottleneck (n rollouts are paid for m), and it
    presents the policy with a success rate near 1/2 whatever the prompt's is.
    """

    paper: ClassVar[str] = "2504.13818"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    keep: Annotated[int, Interval(ge=2, le=100000)] = 4
    """Rollouts trained on a group (the paper: 32 of 128)."""

    def fewest(self) -> int:
        return self.keep

    def apply(self, group: Group, *, view: View) -> Group:
        kept = np.flatnonzero(group.kept_N)
        chosen = kept[max_variance(group.rewards_N[kept], num=self.keep)]
        others = np.setdiff1d(kept, chosen).tolist()
        return group.reject_rollouts(others, reason="pods")
