"""Keeps a balanced few of a large group."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.stages import Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class BalancedSubset(Filter):
    """Keeps `keep` rollouts, half of them right where the group has as many; at random within.

    The rest is rejected as `downsampled`. Behind an advantage map the advantages stay those of
    the whole group: its mean r is the baseline (Reinforce-Ada's global statistics), which is
    unbiased, while a balanced subset's own mean would be about 1/2 for every prompt. Before the
    map, the subset's statistics are used.

    Hurts when the group is no larger than `keep`: it does nothing.
    """

    paper: ClassVar[str] = "2510.04996"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    keep: Annotated[int, Interval(ge=2, le=100000)] = 8
    threshold: Annotated[float, Interval(ge=-1000000.0, le=1000000.0)] = 0.7
    """Reward from which a rollout is right."""

    def fewest(self) -> int:
        return self.keep

    def apply(self, group: Group, *, view: View) -> Group:
        shuffled = view.rng("balanced_subset", group.prompt.id).permutation(len(group.rollouts))
        pool = shuffled[group.kept_N[shuffled]]
        is_right = group.raw_rewards_N[pool] >= self.threshold
        right, wrong = pool[is_right], pool[~is_right]
        # What one side lacks the other fills. Of an odd `keep` the larger half is wrong, as the
        # control `reinforce_ada` lets a prompt leave.
        num_right = min(len(right), max(self.keep // 2, self.keep - len(wrong)))
        chosen = [*right[:num_right], *wrong[: self.keep - num_right]]
        return group.reject_rollouts(np.setdiff1d(pool, chosen).tolist(), reason="downsampled")
