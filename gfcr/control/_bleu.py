"""Finds texts that are nearly the same, by BLEU."""

import importlib
from collections import Counter
from collections.abc import Sequence
from math import exp, log

import numpy as np

_ORDER = 4
"""The length of the longest n-grams that are compared."""
_EPSILON = 0.1
"""The count that stands for no shared n-gram (NLTK's smoothing method 1)."""


def bleu(candidate: Sequence[int], *, reference: Sequence[int]) -> float:
    """Returns the BLEU-4 of one sequence against another, as NLTK's `sentence_bleu` smoothed.

    Geometric mean of the shares of 1- to 4-grams that are shared, times exp(1 - r / c) for a
    candidate of c tokens shorter than the r of the reference. 0 where no token is shared.
    """
    # NLTK does so before it smooths, or four epsilons would make a likeness of nothing.
    if not {*candidate} & {*reference}:
        return 0.0
    total = 0.0
    for size in range(1, _ORDER + 1):
        own, other = (_grams(tokens, size=size) for tokens in (candidate, reference))
        total += log(((own & other).total() or _EPSILON) / max(1, own.total()))
    short = min(0.0, 1 - len(reference) / len(candidate))
    return exp(total / _ORDER + short)


def clusters(texts: Sequence[Sequence[int]], *, distance: float) -> list[int]:
    """Returns a number for each text, equal for texts of the same cluster.

    Clusters are joined while the mean of 1 - BLEU between their texts is `distance` at most.
    """
    if len(texts) < 2:
        return [1] * len(texts)
    scipy = importlib.import_module("scipy.cluster.hierarchy")
    apart = [
        1 - bleu(one, reference=other) for i, one in enumerate(texts) for other in texts[i + 1 :]
    ]
    tree = scipy.linkage(np.array(apart), "average")
    return scipy.fcluster(tree, t=distance, criterion="distance").tolist()


def _grams(tokens: Sequence[int], *, size: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))
