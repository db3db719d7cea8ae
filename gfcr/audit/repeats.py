"""Tests on contexts that were seen many times, for biases that change sign between contexts."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gfcr.audit.checks import ENOUGH, Check, stats
from gfcr.audit.features import Array, Partition

VISITS = 20
"""Least number of visits of a context that is tested."""
LEAST = 3.0
"""Least number expected inside, and outside, a cell that is tested by itself."""


class Tally(NamedTuple):
    """Counts of each rank (the token, given the context) in each repeated context."""

    counts: Array
    chance: Array


def tally(keys: NDArray[np.int64], partition: Partition) -> Tally:
    """Counts the repeated contexts only, shapes (C, K)."""
    _, first, inverse, visits = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    num = partition.mass_NK.shape[1]
    counts = np.zeros((len(first), num))
    np.add.at(counts, (inverse, partition.hit_N), 1)
    often = visits >= VISITS
    return Tally(counts[often], partition.mass_NK[first[often]])


def pooled(found: Tally) -> Check | None:
    """Pearson's X2 summed over contexts, standardised by its exact mean and variance.

    Cells expected less than once in a context are lumped together there. For n draws over cells
    p: mean K - 1, variance 2 (K - 1) + (sum 1/p - K^2 - 2 K + 2) / n.
    """
    total = mean = variance = 0.0
    for count, chance in zip(*found, strict=True):
        c, p = _lumped(count, chance)
        k, n = len(p), c.sum()
        total += float(((c - n * p) ** 2 / (n * p)).sum())
        mean += k - 1
        variance += 2 * (k - 1) + float((1 / p).sum() - k**2 - 2 * k + 2) / n
    if mean < ENOUGH:
        return None
    z = (total - mean) / np.sqrt(variance)
    # A gamma law with these moments: sums of X2 are skewed, a normal tail would be too thin.
    scale = variance / mean
    p_value = stats().gamma.sf(total, mean / scale, scale=scale)
    return Check("repeated contexts", float(z), 0, float(p_value))


def most(found: Tally) -> Check | None:
    """Tests the most surprising cell of all repeated contexts, by exact binomial tails."""
    trials = np.broadcast_to(found.counts.sum(1, keepdims=True), found.counts.shape)
    expected = trials * found.chance
    use = (expected >= LEAST) & (trials - expected >= LEAST)
    if not use.any():
        return None
    hits, law = found.counts[use], stats().binom(trials[use], found.chance[use])
    p = 2 * np.minimum(law.cdf(hits), law.sf(hits - 1)).min()
    return Check("one context", float(len(hits)), -1, float(min(1.0, len(hits) * p)))


def _lumped(count: Array, chance: Array) -> tuple[Array, Array]:
    """Joins the cells expected less than once, and the next likely one if that is too little."""
    small = chance * count.sum() < 1
    if not small.all() and chance[small].sum() * count.sum() < 1:
        small[np.where(small, np.inf, chance).argmin()] = True
    counts = np.append(count[~small], count[small].sum())
    return counts, np.append(chance[~small], chance[small].sum())
