"""The mean of a table of scores, seeds by prompts, with its error and intervals.

Shape suffixes: `_S` one entry per seed, `_SP` seeds by prompts; `...` other tables, as in a
simulation of many studies.
"""

from dataclasses import dataclass
from math import inf, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gfcr.stats.scipy_stats import stats, t_quantile

Table = NDArray[np.float64]

FLOOR = 0.25
"""The least variance of a mean, as a share of what its residual alone contributes.

A sum of squares over two seeds is near 0 too often where scores are discrete: answers of 0
and 1, rare outliers. This is the least share that keeps false verdicts below 5 % in every cell of
`tests/campaign/calibration.py`, with room for what it does not simulate; power of 30 % and above
is unchanged by it.
"""
ROUNDING = 1e-12
"""Differences and errors below this share of the largest score are rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its confidence limits."""

    value: float
    low: float
    high: float

    def within(self, *, low: float, high: float) -> "Interval":
        """Returns the interval, cut at the least and the largest possible value of the quantity."""
        return Interval(value=self.value, low=max(low, self.low), high=min(high, self.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Means of tables with the parts of their variance, each of shape `...`."""

    seeds: int
    prompts: int
    mean: Table
    by_seed: Table
    """var(row means) / S."""
    by_prompt: Table
    """var(column means) / P; 0 with one column."""
    cell: Table
    """Residual variance / (S P); 0 with one column."""

    @property
    def variance(self) -> Table:
        """The variance of the means, see `mean_error`."""
        crossed = self.by_seed + self.by_prompt - self.cell
        return np.maximum(np.maximum(self.by_seed, crossed), FLOOR * self.cell)

    def error(self, *, scale: ArrayLike, span: float) -> Table:
        """Returns the standard error of the means, `...`; see `mean_error`."""
        found = np.sqrt(self.variance)
        least = one_answer(seeds=self.seeds, prompts=self.prompts, span=span)
        return np.where(found <= ROUNDING * np.asarray(scale), least, found)

    @property
    def df(self) -> int:
        """Degrees of freedom of the variance."""
        return degrees(seeds=self.seeds, prompts=self.prompts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean, its standard error and the degrees of freedom of that error.

    An error of 0 is not known to be 0: of S equal values the exact sign-flip test (Fisher 1935)
    says p = 2^(1 - S), and its interval has no limits while that is above the level.
    """

    value: float
    error: float
    df: int
    span: float = inf
    """The largest size that the mean can have."""
    prompts: int = 1

    def interval(self, *, level: float = 0.95) -> Interval:
        """Returns `value +- t(df) * error` at the confidence `level`, cut at the span."""
        return self._around(float(half_width(self.error, df=self.df, alpha=1 - level)))

    def inner(self, *, level: float) -> Interval:
        """Returns the interval of two one-sided tests at `level` each, for equivalence.

        Where the span is finite, the half-width's square is that of the t interval plus that of the
        rule of three, (log(2 / level) * span / P)^2 (Hanley and Lippman-Hand 1983): an effect on
        a kind of prompt so rare that P prompts may have missed it has no error to be seen by.
        """
        # The part of the span that one prompt contributes, where it is known.
        unseen = self.span / self.prompts if self.prompts > 1 and self.span < inf else 0.0
        half = inner_half(self.error, df=self.df, level=level, unseen=unseen)
        return self._around(float(half))

    def p_value(self) -> float:
        """Returns the two-sided p-value of a mean of 0."""
        return float(two_sided(self.value, error=self.error, df=self.df))

    def _around(self, half: float) -> Interval:
        found = Interval(value=self.value, low=self.value - half, high=self.value + half)
        return found.within(low=-self.span, high=self.span)


def table(scores: ArrayLike) -> Table:
    """Returns scores `(S,)` or `(S, P)` as a float table `(S, P)`; one score per seed is P = 1."""
    values = np.asarray(scores, np.float64)
    return values[:, None] if values.ndim == 1 else values


def gaps(one: Table, *, other: Table) -> Table:
    """Returns `one - other`, 0 where they differ by no more than rounding."""
    found = np.asarray(one - other)
    scale = max(np.abs(one).max(), np.abs(other).max())
    return np.where(np.abs(found) <= ROUNDING * scale, 0.0, found)


def degrees(*, seeds: int, prompts: int) -> int:
    """Returns the degrees of freedom of an error: those of the scarcer sample."""
    return (min(seeds, prompts) if prompts > 1 else seeds) - 1


def spread(scores_SP: Table) -> Spread:
    """Analyses the variance of tables `(..., S, P)`, S >= 2, without replication."""
    seeds, prompts = scores_SP.shape[-2:]
    rows_S, columns_P = scores_SP.mean(-1), scores_SP.mean(-2)
    mean = rows_S.mean(-1)
    by_seed = rows_S.var(-1, ddof=1) / seeds
    if prompts == 1:
        by_prompt = cell = np.zeros_like(mean)
    else:
        residual_SP = scores_SP - rows_S[..., :, None] - columns_P[..., None, :]
        residual_SP += mean[..., None, None]
        squares = np.square(residual_SP).sum((-1, -2))
        cell = squares / ((seeds - 1) * (prompts - 1) * seeds * prompts)
        by_prompt = columns_P.var(-1, ddof=1) / prompts
    return Spread(
        seeds=seeds, prompts=prompts, mean=mean, by_seed=by_seed, by_prompt=by_prompt, cell=cell
    )


def half_width(error: ArrayLike, *, df: int, alpha: float) -> Table:
    """Returns half-widths of intervals at 1 - `alpha`: see `Mean` for errors of 0."""
    errors, unknown = np.asarray(error, np.float64), 0.0 if 2.0**-df <= alpha else inf
    return np.where(errors > 0, t_quantile(1 - alpha / 2, df=df) * errors, unknown)


def inner_half(error: ArrayLike, *, df: int, level: float, unseen: float) -> Table:
    """Returns half-widths of `Mean.inner`; `unseen` is the span by prompt, 0 where not known."""
    return np.hypot(half_width(error, df=df, alpha=2 * level), log(2 / level) * unseen)


def two_sided(value: ArrayLike, *, error: ArrayLike, df: int) -> Table:
    """Returns p-values of means of 0, by t; by the sign-flip test where the error is 0."""
    size, errors = np.abs(np.asarray(value, np.float64)), np.asarray(error, np.float64)
    exact = np.where(size > 0, 2.0**-df, 1.0)
    known = errors > 0
    return np.where(known, 2 * stats.t.sf(size / np.where(known, errors, 1.0), df), exact)


def one_answer(*, seeds: int, prompts: int, span: float) -> float:
    """Returns the error of equal cells: that of one more answer each way.

    sqrt(2) span / (S P + 2) (Agresti and Min 2005); 0, not known, without prompts or a span.
    """
    return 2**0.5 * span / (seeds * prompts + 2) if prompts > 1 and span < inf else 0.0


def mean_error(scores: ArrayLike, *, span: float = inf, scale: float | None = None) -> Mean:
    """Estimates the mean over seeds and prompts, both taken as random samples.

    Two-way random effects, seeds crossed with prompts (Searle, Casella and McCulloch, Variance
    Components, ch. 4; the same as two-way clustering, Cameron, Gelbach and Miller 2011):

        V = var(row means) / S + var(column means) / P - residual variance / (S P)

    Each of the first two terms contains the residual once, hence the subtraction. V is not let
    below the first term, so that prompts can only widen an interval over seeds; nor below `FLOOR`
    of the last. Where all cells are equal, it is `one_answer`'s. Degrees of freedom are those of
    the seeds, S - 1, or of the prompts where they are fewer. With one column it is the t test's
    error.

    Args:
        scores: `(S,)` or `(S, P)`, S >= 2.
        span: largest size that a mean can have; 1 for differences of shares.
        scale: largest size of what the scores were computed from, for rounding; their own else.
    """
    scores_SP = table(scores)
    found = spread(scores_SP)
    size = float(np.abs(scores_SP).max()) if scale is None else scale
    return Mean(
        value=float(found.mean),
        error=float(found.error(scale=size, span=span)),
        df=found.df,
        span=span,
        prompts=found.prompts,
    )
