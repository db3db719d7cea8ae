"""Plans a paired comparison: its power, detectable difference and seeds, before it is run.

The model is that of `interval.mean_error`: the difference of two arms at seed s and prompt p is
effect + a_s + b_p + e_sp, the three independent and normal. Shape suffixes: `_SP` seeds by
prompts, `_B` draws of the variance that a study would estimate.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gfcr.stats.interval import FLOOR, degrees, one_answer, spread, table
from gfcr.stats.scipy_stats import optimize, special, t_quantile

_DRAWS = 40_000
_SEED = 20261120


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The variances of a paired difference, by their sources."""

    seed: float
    """The variance of a_s: runs differ by chance."""
    prompt: float
    """The variance of b_p: the effect differs between prompts."""
    residual: float
    """The variance of e_sp: answers are few."""

    def variance(self, *, seeds: int, prompts: int) -> float:
        """Returns the variance of the mean difference over a study's seeds and prompts."""
        return self.seed / seeds + self.prompt / prompts + self.residual / (seeds * prompts)


def components(differences: ArrayLike, *, span: float = inf) -> Components:
    """Estimates the components from differences `(S,)` or `(S, P)` with S >= 2.

    Two-way analysis of variance without replication (Searle, Casella and McCulloch, Variance
    Components, ch. 4); an estimate below 0 is 0. With one column all of it is the seeds'. Where
    all cells are equal, the residual is that of `one_answer`.
    """
    table_SP = table(differences)
    seeds, prompts = table_SP.shape
    found = spread(table_SP)
    scale = float(np.abs(table_SP).max())
    if float(found.error(scale=scale, span=inf)) == 0:
        least = seeds * prompts * one_answer(seeds=seeds, prompts=prompts, span=span) ** 2
        return Components(seed=0.0, prompt=0.0, residual=least)
    cell = float(found.cell)
    return Components(
        seed=max(0.0, float(found.by_seed) - cell) * seeds,
        prompt=max(0.0, float(found.by_prompt) - cell) * prompts,
        residual=cell * seeds * prompts,
    )


def power(
    effect: float, *, components: Components, seeds: int, prompts: int, alpha: float = 0.05
) -> float:
    """Returns the probability that `compare` finds p < `alpha` when the difference is `effect`.

    The three mean squares behind the estimated variance are independent chi-squares, and
    independent of the mean; the probability given the estimate is the normal's, averaged over
    seeded draws of it. 0 with one seed, which has no p-value.

    Args:
        effect: true difference, in the unit of the scores.
        components: the variances of one paired difference.
        seeds: seeds that both arms have.
        prompts: held-out prompts.
        alpha: level of the two-sided test; for Holm over k arms the first step is 0.05 / k.
    """
    error = components.variance(seeds=seeds, prompts=prompts) ** 0.5
    if seeds < 2:
        return 0.0
    if error == 0:
        return float(effect != 0)
    df = degrees(seeds=seeds, prompts=prompts)
    limits_B = t_quantile(1 - alpha / 2, df=df) * _errors(components, seeds, prompts)
    above_B, below_B = (limits_B - effect) / error, (limits_B + effect) / error
    return float((special.ndtr(-above_B) + special.ndtr(-below_B)).mean())


def detectable(
    components: Components,
    *,
    seeds: int,
    prompts: int,
    alpha: float = 0.05,
    at_power: float = 0.8,
) -> float:
    """Returns the smallest difference found with probability `at_power`; NaN with one seed."""
    error = components.variance(seeds=seeds, prompts=prompts) ** 0.5
    if seeds < 2 or error == 0:
        return np.nan if seeds < 2 else 0.0
    # Twice the quantile leaves a tail that no power asked for reaches.
    df = degrees(seeds=seeds, prompts=prompts)
    high = error * 4 * (t_quantile(1 - alpha / 2, df=df) + 2)

    def missing(effect: float) -> float:
        found = power(effect, components=components, seeds=seeds, prompts=prompts, alpha=alpha)
        return found - at_power

    return float(optimize.brentq(missing, 0.0, high))


def seeds_needed(
    effect: float,
    *,
    components: Components,
    prompts: int,
    alpha: float = 0.05,
    at_power: float = 0.8,
    most: int = 1000,
) -> int | None:
    """Returns the fewest seeds that find `effect` with probability `at_power`.

    None when `most` are not enough: with these prompts the effect stays out of reach.
    """

    def enough(seeds: int) -> bool:
        found = power(effect, components=components, seeds=seeds, prompts=prompts, alpha=alpha)
        return found >= at_power

    if not enough(most):
        return None
    return 2 + bisect_left(range(2, most), True, key=enough)


@lru_cache(maxsize=64)
def _errors(components: Components, seeds: int, prompts: int) -> NDArray[np.float64]:
    """Returns draws `_B` of the standard error that `mean_error` would estimate."""
    rng = np.random.default_rng(_SEED)

    def mean_square(df: int) -> NDArray[np.float64]:
        return rng.chisquare(df, _DRAWS) / df

    rows = (components.seed + components.residual / prompts) / seeds
    by_seed_B = rows * mean_square(seeds - 1)
    if prompts == 1:
        return np.sqrt(by_seed_B)
    columns = (components.prompt + components.residual / seeds) / prompts
    by_prompt_B = columns * mean_square(prompts - 1)
    cells_B = components.residual / (seeds * prompts) * mean_square((seeds - 1) * (prompts - 1))
    variance_B = np.maximum(by_seed_B, by_seed_B + by_prompt_B - cells_B)
    return np.sqrt(np.maximum(variance_B, FLOOR * cells_B))
