"""Rejects rollouts that say what an earlier one of their group says."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.filter._ngrams import Ngrams, jaccard, ngrams_of
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Share


@final
@dataclass(kw_only=True)
class NearDuplicates(Filter):
    """Keeps a rollout only if none kept before it in the group is nearly the same.

    Nearly the same are two whose sets of token n-grams have a Jaccard index above `most`: shared /
    all of them. So no two of those kept are, and each one rejected is of one kept.

    Put it behind the advantage map: before it, a group's mean reward would be that of its distinct
    rollouts, and rare answers would weigh as much as common ones. Hurts near determinism, where a
    group is a handful of rollouts written many times, and with trees, whose leaves share trunks.
    """

    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    most: Share = 0.8
    """Highest Jaccard index that two kept rollouts may have; 1 rejects none."""
    ngram: Annotated[int, Interval(ge=1, le=1000)] = 3
    """Tokens of an n-gram; a shorter rollout is one whole."""

    def apply(self, group: Group, *, view: View) -> Group:
        which: list[int] = np.flatnonzero(group.kept_N).tolist()
        distinct: list[Ngrams] = []
        repeats: list[int] = []
        for i, grams in zip(which, ngrams_of(group, which, size=self.ngram), strict=True):
            if any(jaccard(grams, other) > self.most for other in distinct):
                repeats.append(i)
            else:
                distinct.append(grams)
        return group.reject_rollouts(repeats, reason="near_duplicates")
