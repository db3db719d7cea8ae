"""n-grams of token sequences, and how much of them two sequences share."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gfcr.types import Group, Ints

Ngrams: TypeAlias = frozenset[tuple[int, ...]]


def ngrams(tokens: Ints, *, size: int) -> Ngrams:
    """The distinct n-grams; of a sequence shorter than one, itself."""
    listed: list[int] = tokens.tolist()
    starts = range(max(1, len(listed) - size + 1))
    return frozenset(tuple(listed[i : i + size]) for i in starts)


def ngrams_of(group: Group, which: Sequence[int], *, size: int) -> list[Ngrams]:
    """Returns those of a group's rollouts, over the tokens that the policy sampled."""
    rollouts = [group.rollouts[i] for i in which]
    return [ngrams(r.tokens_T[r.mask_T], size=size) for r in rollouts]


def jaccard(one: Ngrams, other: Ngrams) -> float:
    """Shared n-grams / all n-grams of the two: 1 for equal sets, 0 for disjoint ones."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def distances(sets: Sequence[Ngrams]) -> NDArray[np.float64]:
    """1 - Jaccard, each with each."""
    return np.array([[1 - jaccard(a, b) for b in sets] for a in sets])
