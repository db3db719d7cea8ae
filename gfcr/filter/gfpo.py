"""GFPO: trains on the shortest, or most efficient, rollouts of a group."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.stages import Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class Gfpo(Filter):
    """Keeps the `keep` rollouts that are best by `metric`; the others are rejected as `gfpo`.

        shortest     fewest tokens that the policy sampled
        efficiency   most reward per token

    Ties are broken at random. Put the advantage map after it: mean and deviation are those of the
    kept, and lengths are taught by what is not shown, with rewards left as they are.

    Hurts when only long answers are right: `shortest` then keeps wrong ones, and the group is dead.
    With negative rewards `efficiency` prefers long rollouts.
    """

    paper: ClassVar[str] = "2508.09726"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    keep: Annotated[int, Interval(ge=2, le=100000)] = 8
    """Rollouts trained on a group (k)."""
    metric: Literal["shortest", "efficiency"] = "shortest"

    def fewest(self) -> int:
        return self.keep

    def apply(self, group: Group, *, view: View) -> Group:
        # The sort is stable and the pool is shuffled, so that ties are broken at random.
        pool = view.rng("gfpo", group.id).permutation(np.flatnonzero(group.kept_N))
        lengths = np.array([int(r.mask_T.sum()) for r in group.rollouts], np.float64)[pool]
        shortest = self.metric == "shortest"
        # A rollout may hold no token of the policy's, and must not be divided by 0.
        costs = lengths if shortest else -group.rewards_N[pool] / np.maximum(lengths, 1)
        others = pool[np.argsort(costs, kind="stable")[self.keep :]]
        group = group.reject_rollouts(others.tolist(), reason="gfpo")
        return group.with_values(kept_length=_mean_length(group))


def _mean_length(group: Group) -> float:
    kept = zip(group.rollouts, group.kept_N, strict=True)
    return float(np.mean([int(r.mask_T.sum()) for r, k in kept if k]))
