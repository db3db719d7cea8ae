"""Interquartile mean and its bootstrap interval.

Shape suffixes: `_S` one entry per seed, `_SP` seeds by prompts, `_B` bootstrap replicates.
"""

import numpy as np
from numpy.typing import ArrayLike

from gfcr.stats.interval import Interval, table
from gfcr.stats.scipy_stats import trimmed_mean

_REPLICATES = 2000
_SEED = 20210829


def iqm(scores: ArrayLike) -> float:
    """Returns the mean of the middle half of all scores (25 % trimmed at each end).

    Source: Agarwal et al. 2021, arXiv 2108.13264; equal to `rliable.metrics.aggregate_iqm`.
    """
    return float(trimmed_mean(np.ravel(scores), share=0.25))


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
    replicates_B = trimmed_mean(np.take_along_axis(means_BS, rows_BS, 1), share=0.25)
    low, high = np.quantile(replicates_B, [0.025, 0.975])
    return Interval(value=iqm(scores_SP.mean(1)), low=float(low), high=float(high))
