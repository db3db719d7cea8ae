"""Aggregates over runs and tasks with stratified bootstrap intervals, number for number rliable's.

Source: Agarwal et al. 2021, arXiv 2108.13264. Where scores are one task's, a column is the task;
shape suffix: `_RT` runs by tasks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gfcr.statistics.interval import Interval, Table, table

Statistic = Callable[..., float]
"""Takes one resampled table for each table given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Share of scores above each threshold, with pointwise 95 % limits."""

    thresholds: tuple[float, ...]
    share: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def optimality_gap(scores: ArrayLike, *, target: float = 1.0) -> float:
    """Returns how far scores fall short of `target` on average; those above it count as on it."""
    return target - float(np.minimum(np.asarray(scores, np.float64), target).mean())


def stratified_interval(
    *tables: ArrayLike,
    statistic: Statistic,
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
) -> Interval:
    """Returns a statistic of scores with its percentile interval.

    Runs are drawn with replacement within each task, and for each table on its own. The draws are
    those of `rliable.library.get_interval_estimates` after `numpy.random.seed(seed)`, in NumPy's
    legacy generator, so that the limits agree to the last digits.

    Args:
        tables: scores `(R,)` or `(R, T)`, one table or several.
        statistic: function of as many tables.
        level: of confidence.
        replicates: bootstrap draws.
        seed: of the draws.
    """
    given = [table(scores) for scores in tables]

    def value(*drawn: Table) -> NDArray[np.float64]:
        return np.array([statistic(*drawn)])

    found_B = _resampled(given, value, replicates=replicates, seed=seed)[:, 0]
    low, high = np.percentile(found_B, [50 - 50 * level, 50 + 50 * level])
    return Interval(value=float(statistic(*given)), low=float(low), high=float(high))


def performance_profile(
    scores: ArrayLike,
    *,
    thresholds: Sequence[float],
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
) -> Profile:
    """Returns the share of runs (over all tasks) that score above each threshold.

    Args:
        scores: `(R,)` or `(R, T)`.
        thresholds: scores at which to look.
        level: of confidence.
        replicates: bootstrap draws, as in `stratified_interval`.
        seed: of the draws.
    """
    taus = np.asarray(thresholds, np.float64)

    def shares(scores_RT: Table) -> NDArray[np.float64]:
        return (scores_RT[:, :, None] > taus).mean((0, 1))

    scores_RT = table(scores)
    drawn_BN = _resampled([scores_RT], shares, replicates=replicates, seed=seed)
    low, high = np.percentile(drawn_BN, [50 - 50 * level, 50 + 50 * level], axis=0)
    return Profile(
        thresholds=tuple(taus.tolist()),
        share=tuple(shares(scores_RT).tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
    )


def _resampled(
    tables: Sequence[Table],
    statistic: Callable[..., NDArray[np.float64]],
    *,
    replicates: int,
    seed: int,
) -> NDArray[np.float64]:
    """The statistic of each replicate, `(B, values)`."""
    state = np.random.RandomState(seed)

    def draw(scores_RT: Table) -> Table:
        rows_RT = state.choice(len(scores_RT), scores_RT.shape, replace=True)
        return np.take_along_axis(scores_RT, rows_RT, 0)

    return np.stack([statistic(*(draw(t) for t in tables)) for _ in range(replicates)])
