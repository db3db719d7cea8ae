"""Intervals of a share, which lie inside [0, 1] whatever the number of seeds.

Shape suffix: `_SP` seeds by prompts.
"""

from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gfcr.stats.interval import (
    ROUNDING,
    Interval,
    Spread,
    Table,
    mean_error,
    spread,
    table,
)
from gfcr.stats.scipy_stats import stats, t_quantile

Bounds: TypeAlias = tuple[float, float]
"""The least and the largest score that there can be."""
SHARE: Bounds = (0.0, 1.0)
UNBOUNDED: Bounds = (-inf, inf)


def bounds_of(*tables: Table, declared: Bounds | None = None) -> Bounds:
    """Returns the declared bounds of scores; undeclared, those of a share if all fit in [0, 1].

    Scores outside these bounds are unbounded.
    """

    def inside(bounds: Bounds) -> bool:
        # The mean of several scores at a bound may lie beyond it by rounding.
        low, high = bounds[0] - ROUNDING * abs(bounds[0]), bounds[1] + ROUNDING * abs(bounds[1])
        return all(bool(((t >= low) & (t <= high)).all()) for t in tables)

    wanted = SHARE if declared is None else declared
    return wanted if inside(wanted) else UNBOUNDED


def mean_interval(scores: ArrayLike, *, bounds: Bounds | None = None) -> Interval | None:
    """Returns the mean with its 95 % interval; None with fewer than two seeds.

    By `share_limits` between two bounds, else the t interval of `mean_error`, cut at one bound.

    Args:
        scores: `(S,)` or `(S, P)`.
        bounds: the bounds of the scores, see `bounds_of`.
    """
    scores_SP = table(scores)
    if len(scores_SP) < 2:
        return None
    low, high = bounds_of(scores_SP, declared=bounds)
    if high - low == inf:
        return mean_error(scores_SP).interval().within(low=low, high=high)
    found = spread((scores_SP - low) / (high - low))
    limits = (np.clip(found.mean, 0, 1), *share_limits(found, level=0.95))
    value, least, most = (low + (high - low) * float(x) for x in limits)
    return Interval(value=value, low=least, high=most)


def share_limits(found: Spread, *, level: float) -> tuple[Table, Table]:
    """Returns the Korn-Graubard limits of the means of tables of scores in [0, 1], each `...`.

    Korn and Graubard 1998 (Survey Methodology 24), for shares from clustered answers: Clopper and
    Pearson's limits for n* answers, n* = p (1 - p) / V, the number of independent ones with the
    variance V that `spread` finds, times (z / t(df))^2 for what is not known of V. V has
    Sheppard's 1 / (12 P^2) added, so that shares near 0 and 1 do not look better known than P
    prompts can tell. n* is at most S P; where all answers are alike, it is P. Without prompts
    (P = 1) and between equal scores it is S.

    Args:
        found: of tables `(..., S, P)`, S >= 2.
        level: the level of confidence.
    """
    seeds, prompts, share = found.seeds, found.prompts, np.clip(found.mean, 0, 1)
    product, variance = share * (1 - share), found.variance
    edge = product <= ROUNDING
    if prompts > 1:
        most = np.minimum(product / (variance + 1 / (12 * prompts**2)), seeds * prompts)
        answers = np.where(edge, prompts, most)
    else:
        equal = edge | (variance <= ROUNDING**2)
        answers = np.where(equal, seeds, product / np.where(equal, 1.0, variance))
    tail = (1 - level) / 2
    answers *= (float(stats.norm.ppf(1 - tail)) / t_quantile(1 - tail, df=found.df)) ** 2
    right, wrong = (
        np.where(edge & (share < 0.5), 0, share),
        np.where(edge & (share > 0.5), 0, 1 - share),
    )
    low = stats.beta.ppf(tail, right * answers, wrong * answers + 1)
    high = stats.beta.ppf(1 - tail, right * answers + 1, wrong * answers)
    low = np.where(right == 0, 0.0, low)
    high = np.where(wrong == 0, 1.0, high)
    return np.minimum(low, share), np.maximum(high, share)
