"""The mean of a table of scores, seeds by prompts, and how far it can be trusted.

Shape suffixes: `_S` one entry per seed, `_SP` seeds by prompts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gfcr.statistics.scipy_stats import t_quantile

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its confidence limits."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean, its standard error and the degrees of freedom of that error."""

    value: float
    error: float
    df: int

    def interval(self, *, level: float = 0.95) -> Interval:
        """Returns `value +- t(df) * error` at the confidence `level`."""
        half = t_quantile(0.5 + level / 2, df=self.df) * self.error
        return Interval(value=self.value, low=self.value - half, high=self.value + half)


def table(scores: ArrayLike) -> Table:
    """Returns scores `(S,)` or `(S, P)` as a float table `(S, P)`; one score per seed is P = 1."""
    values = np.asarray(scores, np.float64)
    return values[:, None] if values.ndim == 1 else values


def mean_error(scores: ArrayLike) -> Mean:
    """Estimates the mean over seeds and prompts, both taken as random samples.

    Two-way random effects, seeds crossed with prompts (Searle, Casella and McCulloch, Variance
    Components, ch. 4; the same as two-way clustering, Cameron, Gelbach and Miller 2011):

        V = var(row means) / S + var(column means) / P - residual variance / (S P)

    Each of the first two terms contains the residual once, hence the subtraction. V is not let
    below the first term, so that prompts can only widen an interval over seeds. Degrees of freedom
    are those of the seeds, S - 1, the scarcer sample.

    Args:
        scores: `(S,)` or `(S, P)`, S >= 2.
    """
    scores_SP = table(scores)
    seeds, prompts = scores_SP.shape
    rows_S, value = scores_SP.mean(1), float(scores_SP.mean())
    variance = by_seed = float(rows_S.var(ddof=1)) / seeds
    if prompts > 1:
        columns_P = scores_SP.mean(0)
        residual_SP = scores_SP - rows_S[:, None] - columns_P[None, :] + value
        cell = float((residual_SP**2).sum()) / ((seeds - 1) * (prompts - 1)) / (seeds * prompts)
        variance = max(by_seed, by_seed + float(columns_P.var(ddof=1)) / prompts - cell)
    return Mean(value=value, error=float(np.sqrt(variance)), df=seeds - 1)


def mean_interval(scores: ArrayLike, *, level: float = 0.95) -> Interval | None:
    """Returns the mean with its t interval; None with fewer than two seeds."""
    return mean_error(scores).interval(level=level) if len(table(scores)) > 1 else None
