"""Tests on contexts that were seen many times, for biases that change sign between contexts."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gfcr.audit import checks
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


def pooled(name: str, found: Tally) -> checks.Check | None:
    """Pearson's X2 summed over contexts, standardised by its exact mean and variance.

    Cells expected less than once in a context are lumped together there. For n draws over cells
    p: mean K - 1, variance 2 (K - 1) + (sum 1/p - K^2 - 2 K + 2) / n.
    """
    total = mean = variance = 0.0
    for count, chance in zip(*found, strict=True):
        c, p = _lumped(count, chance)
        k, n = len(p), c.sum()
        if k < 2:
            continue
        total += float(((c - n * p) ** 2 / (n * p)).sum())
        mean += k - 1
        variance += 2 * (k - 1) + float((1 / p).sum() - k**2 - 2 * k + 2) / n
    if mean < checks.ENOUGH:
        return None
    z = (total - mean) / np.sqrt(variance)
    # A gamma law with these moments: sums of X2 are skewed, a normal tail would be too thin.
    scale = variance / mean
    return checks.Check(name, float(z), 0, checks.gamma_tail(total, mean / scale, scale))


def most(name: str, found: Tally) -> checks.Check | None:
    """Tests the single most surprising cell of all repeated contexts."""
    trials = np.broadcast_to(found.counts.sum(1, keepdims=True), found.counts.shape)
    expected = trials * found.chance
    use = (expected >= LEAST) & (trials - expected >= LEAST)
    return checks.binomial(name, found.counts[use], trials[use], found.chance[use])


def _lumped(count: Array, chance: Array) -> tuple[Array, Array]:
    small = chance * count.sum() < 1
    if not small.any():
        return count, chance
    c, p = count[~small], chance[~small]
    rest = float(chance[small].sum())
    if rest * count.sum() >= 1:
        return np.append(c, count[small].sum()), np.append(p, rest)
    if len(p):
        # Too little to stand alone: it goes to the least likely of the others.
        least = int(p.argmin())
        c, p = c.copy(), p.copy()
        c[least] += count[small].sum()
        p[least] += rest
    return c, p
