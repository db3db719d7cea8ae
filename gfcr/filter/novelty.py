"""Weighs rollouts by how unlike their siblings they are."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.filter._choice import chosen, weighed
from gfcr.filter._ngrams import distances, ngrams_of
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Finite, Share


@final
@dataclass(kw_only=True)
class Novelty(Filter):
    """Gives rollouts that differ from their siblings more weight, those alike less.

    With d_i the mean of 1 - Jaccard (of token n-grams) from rollout i to the m - 1 others:
        w_i = 1 - strength + strength m d_i / sum_j d_j,
    1 in the mean, so that a group counts as much as before; 1 for all where all are equal or m
    is 1. By default among right rollouts: a way to the answer that few take is learned from more.

    Hurts with `of: all`, where odd wrong answers are pushed away hardest, and where what is odd
    about right answers is noise (a lucky guess, another language).
    """

    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    strength: Share = 0.5
    of: Literal["right", "all"] = "right"
    """Which are compared and weighed; the others stay as they are."""
    ngram: Annotated[int, Interval(ge=1, le=1000)] = 3
    """Tokens of an n-gram; a shorter rollout is one whole."""
    threshold: Finite = 0.7
    """Reward from which a rollout is right."""

    def apply(self, group: Group, *, view: View) -> Group:
        which = chosen(group, of=self.of, threshold=self.threshold)
        if len(which) < 2:
            return group
        # A rollout's distance to itself is 0, and how many there are cancels in the ratio.
        sums = distances(ngrams_of(group, which, size=self.ngram)).sum(axis=1)
        total = float(sums.sum())
        relative = sums * len(which) / total if total > 0 else np.ones(len(which))
        return weighed(group, which, (1 + self.strength * (relative - 1)).tolist())
