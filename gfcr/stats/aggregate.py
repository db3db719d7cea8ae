"""Aggregates over runs, tasks and prompts, with bootstrap intervals.

Source: Agarwal et al. 2021, arXiv 2108.13264; equal to rliable's. Scores of a single task are one
column. Shape suffixes: `_RT` runs by tasks, `_S` one entry per seed, `_SP` seeds by prompts, `_B`
bootstrap replicates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gfcr.stats.interval import Interval, Table, table
from gfcr.stats.scipy_stats import stats

_REPLICATES = 2000
_SEED = 20210829


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The share of scores above each threshold, with pointwise 95 % limits."""

    thresholds: tuple[float, ...]
    share: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def iqm(scores: ArrayLike) -> float:
    """Returns the mean of the middle half of all scores (25 % trimmed at each end)."""
    return float(stats.trim_mean(np.ravel(scores), 0.25))


def bootstrap_interval(scores: ArrayLike) -> Interval | None:
    """Returns the IQM over seeds with its 95 % percentile bootstrap interval; None with one seed.

    Seeds and, where scores are per prompt, prompts are drawn with replacement independently of
    each other (the pigeonhole bootstrap, Owen 2007, arXiv 0712.1111): answers to one prompt are
    not independent of each other. The IQM is taken over the seeds' means. With one column it is
    the stratified bootstrap of arXiv 2108.13264 on one task.

    Percentile intervals are too narrow below some ten seeds: for looking, not for verdicts. Draws
    are seeded, so that the same scores give the same interval.
    """
    scores_SP = table(scores)
    seeds, prompts = scores_SP.shape
    if seeds < 2:
        return None
    rng = np.random.default_rng(_SEED)
    columns_BP = rng.multinomial(prompts, [1 / prompts] * prompts, size=_REPLICATES)
    means_BS = columns_BP @ scores_SP.T / prompts
    rows_BS = rng.integers(seeds, size=(_REPLICATES, seeds))
    replicates_B: Table = stats.trim_mean(np.take_along_axis(means_BS, rows_BS, 1), 0.25, axis=1)
    low, high = np.quantile(replicates_B, [0.025, 0.975])
    return Interval(value=iqm(scores_SP.mean(1)), low=float(low), high=float(high))


def performance_profile(
    scores: ArrayLike,
    *,
    thresholds: Sequence[float],
    replicates: int = 2000,
    seed: int = 0,
) -> Profile:
    """Returns the share of runs (over all tasks) that score above each threshold.

    Args:
        scores: `(R,)` or `(R, T)`.
        thresholds: the scores at which the share is computed.
        replicates: bootstrap draws: runs with replacement, within each task. They are those of
            `rliable.library.create_performance_profile` after `numpy.random.seed(seed)`, in NumPy's
            legacy generator, so that the limits agree to the last digits.
        seed: the seed of the draws.
    """
    taus, scores_RT = np.asarray(thresholds, np.float64), table(scores)
    state = np.random.RandomState(seed)
    rows_BRT = state.choice(len(scores_RT), (replicates, *scores_RT.shape), replace=True)
    drawn_BRT = np.take_along_axis(scores_RT[None], rows_BRT, 1)
    drawn_NB = np.stack([(drawn_BRT > tau).mean((1, 2)) for tau in taus])
    low, high = np.percentile(drawn_NB, [2.5, 97.5], axis=1)
    share = (scores_RT[:, :, None] > taus).mean((0, 1))
    return Profile(
        thresholds=tuple(taus.tolist()),
        share=tuple(share.tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
    )
