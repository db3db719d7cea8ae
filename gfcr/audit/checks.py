"""Statistical tests whose null distribution under a lossless engine is known for any model.

Given the past, a token's cell has known probabilities, so hits minus probabilities is a martingale
difference with known covariance: sums of it are normal, quadratic forms of it chi-square. Contexts
that were seen many times are tested for biases that change sign between contexts.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gfcr.audit.features import Array, Features, Partition
from gfcr.stats.scipy_stats import stats

ENOUGH = 25.0
"""Least variance of a count at which its sum is taken as normal, far into the tail."""
FEW = 2e8
"""Number of products in a covariance up to which one thread is enough."""
SMOOTH = 4
"""Number of Legendre polynomials in the test of uniformity."""
VISITS = 20
"""Least number of visits of a context that is tested."""
LEAST = 3.0
"""Least number expected inside, and outside, a cell that is tested by itself."""

Mask = NDArray[np.bool_]


class Spread(NamedTuple):
    """Variance of a sum, or covariance of counts, diagonalised over the cells with enough."""

    cells: NDArray[np.intp]
    vectors: Array
    values: Array

    def form(self, excess: Array) -> float:
        """Returns the quadratic form, chi-square with `len(values)` degrees of freedom.

        Of a shift it is the noncentrality.
        """
        return float((((excess[self.cells] @ self.vectors) ** 2) / self.values).sum())


class Check(NamedTuple):
    """The outcome of one test."""

    name: str
    statistic: float
    df: int
    """Degrees of freedom of a chi-square; 0 for a standard normal; -1 for a count."""
    p_value: float
    spread: Spread | None = None
    """Covariance of what is summed, on which the power depends; None for a count."""


def normal(name: str, total: float, *, variance: float) -> Check | None:
    """Tests a sum that is normal with mean 0; None if its variance is 0 or it is not finite."""
    if variance <= 0 or not np.isfinite(total):
        return None
    z = total / np.sqrt(variance)
    spread = Spread(np.array([0]), np.eye(1), np.array([variance]))
    return Check(name, float(z), 0, float(2 * stats.norm.sf(abs(z))), spread)


def surprise(name: str, f: Features, *, mask: Mask) -> Check | None:
    """Tests the standardised sum of log p(x) + H: positive is too sharp, negative too flat."""
    use = mask & ~f.impossible_N
    variance = float(f.surprise_var_N[use].sum())
    # Neither few tokens nor rare ones may carry the sum: the normal law would not hold.
    if variance**2 < ENOUGH * float(f.surprise_4th_N[use].sum()):
        return None
    return normal(name, float(f.surprise_N[use].sum()), variance=variance)


def _spread(mass: Array) -> Spread | None:
    """Returns the spread of counts by their probabilities; None if no cell has enough variance.

    Left out, too, is what varies too little of several, as their sum where few tokens fall outside.
    """
    # Matrix products of this shape make BLAS threads wait for each other on a busy machine.
    small = mass.size * mass.shape[1] < FEW
    products = np.einsum("nj,nk->jk", mass, mass) if small else mass.T @ mass
    covariance = np.diag(mass.sum(0)) - products
    cells = np.flatnonzero(np.diag(covariance) >= ENOUGH)
    if len(cells) < 1:
        return None
    values, vectors = np.linalg.eigh(covariance[np.ix_(cells, cells)])
    kept = values >= ENOUGH
    return Spread(cells, vectors[:, kept], values[kept])


def cells(name: str, partition: Partition, *, mask: Mask) -> Check | None:
    """Tests the counts of all cells against their probabilities, by chi-square."""
    mass = partition.mass_NK[mask]
    spread = _spread(mass)
    if spread is None:
        return None
    counts = np.bincount(partition.hit_N[mask], minlength=mass.shape[1])
    value, df = spread.form(counts - mass.sum(0)), len(spread.values)
    return Check(name, value, df, float(stats.chi2.sf(value, df)), spread)


def uniform(name: str, u: Array) -> Check | None:
    """Neyman's smooth test: means of the first Legendre polynomials, orthonormal on (0, 1)."""
    if len(u) < 4 * ENOUGH:
        return None
    sums = np.polynomial.legendre.legvander(2 * np.clip(u, 0, 1) - 1, SMOOTH)[:, 1:].sum(0)
    value = float(((2 * np.arange(1, SMOOTH + 1) + 1) * sums**2).sum() / len(u))
    return Check(name, value, SMOOTH, float(stats.chi2.sf(value, SMOOTH)))


def product(name: str, first: Array, second: Array) -> Check | None:
    """Tests the correlation of uniform variables that must be independent."""
    if len(first) < 4 * ENOUGH:
        return None
    total = 12 * float(((first - 0.5) * (second - 0.5)).sum())
    return normal(name, total, variance=len(first))


def rare(name: str, f: Features) -> Check | None:
    """Tests the number of tokens of small probability, by a Poisson bound."""
    expected, seen = float(f.rare_mass_N.sum()), int(f.rare_N.sum())
    if not seen:
        return None
    return Check(name, float(seen), -1, float(stats.poisson.sf(seen - 1, expected)))


def frequency(name: str, hits: Mask, mass: Array) -> Check | None:
    """Tests how often tokens came, against the probability of each given the past."""
    variance = float((mass * (1 - mass)).sum())
    if variance < ENOUGH:
        return None
    return normal(name, float(hits.sum() - mass.sum()), variance=variance)


def repeated(keys: NDArray[np.int64], partition: Partition) -> Iterator[Check | None]:
    """Tests the counts of each rank (the token, given the context) in each repeated context."""
    _, first, inverse, visits = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    num = partition.mass_NK.shape[1]
    counts_CK = np.zeros((len(first), num))
    np.add.at(counts_CK, (inverse, partition.hit_N), 1)
    often = visits >= VISITS
    counts_CK, chance_CK = counts_CK[often], partition.mass_NK[first[often]]
    yield _pooled(counts_CK, chance_CK)
    yield _most(counts_CK, chance_CK)


def _pooled(counts_CK: Array, chance_CK: Array) -> Check | None:
    """Pearson's X2 summed over contexts, standardised by its exact mean and variance.

    Cells expected less than once in a context are lumped together there. For n draws over cells
    p: mean K - 1, variance 2 (K - 1) + (sum 1/p - K^2 - 2 K + 2) / n.
    """
    total = mean = variance = 0.0
    for count, chance in zip(counts_CK, chance_CK, strict=True):
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
    p_value = stats.gamma.sf(total, mean / scale, scale=scale)
    return Check("repeated contexts", float(z), 0, float(p_value))


def _most(counts_CK: Array, chance_CK: Array) -> Check | None:
    """Tests the most surprising cell of all repeated contexts, by exact binomial tails."""
    trials = np.broadcast_to(counts_CK.sum(1, keepdims=True), counts_CK.shape)
    expected = trials * chance_CK
    use = (expected >= LEAST) & (trials - expected >= LEAST)
    if not use.any():
        return None
    hits, law = counts_CK[use], stats.binom(trials[use], chance_CK[use])
    p = 2 * np.minimum(law.cdf(hits), law.sf(hits - 1)).min()
    return Check("one context", float(len(hits)), -1, float(min(1.0, len(hits) * p)))


def _lumped(count: Array, chance: Array) -> tuple[Array, Array]:
    """Joins the cells expected less than once, and the next likely one if that is too little."""
    small = chance * count.sum() < 1
    if not small.all() and chance[small].sum() * count.sum() < 1:
        small[np.where(small, np.inf, chance).argmin()] = True
    counts = np.append(count[~small], count[small].sum())
    return counts, np.append(chance[~small], chance[small].sum())


def shifted_power(check: Check, *, shift: float, level: float) -> float:
    """Returns the probability that a test of `level` rejects under a shift.

    Args:
        check: the test; its degrees of freedom are used, not its outcome.
        shift: the noncentrality; the square of a normal's standard deviations.
        level: level of the test.
    """
    df = max(check.df, 1)
    return float(stats.ncx2.sf(stats.chi2.isf(level, df), df, shift))
