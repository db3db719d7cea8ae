"""Intervals of a share: inside [0, 1], whatever the seeds.

Shape suffix: `_SP` seeds by prompts.
"""

from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gfcr.statistics.interval import (
    ROUNDING,
    Interval,
    Table,
    degrees,
    mean_error,
    spread,
    table,
)
from gfcr.statistics.scipy_stats import beta_quantile, normal_quantile, t_quantile

Bounds: TypeAlias = tuple[float, float]
"""Least and largest score that there can be."""
SHARE: Bounds = (0.0, 1.0)
UNBOUNDED: Bounds = (-inf, inf)


def bounds_of(*tables: Table, declared: Bounds | None = None) -> Bounds:
    """Returns what bounds the scores: as declared, or a share where all of them are in [0, 1].

    Scores outside the declared bounds are unbounded.
    """

    def inside(bounds: Bounds) -> bool:
        return all(bool(((t >= bounds[0]) & (t <= bounds[1])).all()) for t in tables)

    wanted = SHARE if declared is None else declared
    return wanted if inside(wanted) else UNBOUNDED


def mean_interval(
    scores: ArrayLike, *, level: float = 0.95, bounds: Bounds | None = None
) -> Interval | None:
    """Returns the mean with its interval; None with fewer than two seeds.

    `share_interval`'s for bounded scores, else the t interval of `mean_error`.

    Args:
        scores: `(S,)` or `(S, P)`.
        level: of confidence.
        bounds: of the scores; see `bounds_of`.
    """
    scores_SP = table(scores)
    if len(scores_SP) < 2:
        return None
    low, high = bounds_of(scores_SP, declared=bounds)
    if high - low == inf:
        return mean_error(scores_SP).interval(level=level)
    found = share_interval((scores_SP - low) / (high - low), level=level)
    limits = (low + (high - low) * x for x in (found.value, found.low, found.high))
    return Interval(**dict(zip(("value", "low", "high"), limits, strict=True)))


def share_interval(scores_SP: Table, *, level: float = 0.95) -> Interval:
    """Returns the mean of scores in [0, 1] with its Korn-Graubard interval.

    Korn and Graubard 1998 (Survey Methodology 24), for shares from clustered answers: Clopper and
    Pearson's limits for n* answers, n* = p (1 - p) / V, the number of independent ones with the
    variance V that `spread` finds, times (z / t(df))^2 for what is not known of V. V has
    Sheppard's 1 / (12 P^2) added, so that shares near 0 and 1 do not look better known than P
    prompts can tell. n* is at most S P; where all answers are alike, it is P. Without prompts
    (P = 1) and between equal scores it is S.

    Args:
        scores_SP: `(S, P)`, S >= 2, all in [0, 1].
        level: of confidence.
    """
    found, (seeds, prompts) = spread(scores_SP), scores_SP.shape
    value, variance = float(np.clip(found.mean, 0, 1)), float(found.variance)
    edge = value * (1 - value) <= ROUNDING
    if prompts > 1:
        variance += 1 / (12 * prompts**2)
        answers = prompts if edge else min(value * (1 - value) / variance, seeds * prompts)
    else:
        equal = edge or variance <= ROUNDING**2
        answers = seeds if equal else value * (1 - value) / variance
    tail = (1 - level) / 2
    df = degrees(seeds=seeds, prompts=prompts)
    answers *= (normal_quantile(1 - tail) / t_quantile(1 - tail, df=df)) ** 2
    right, wrong = value * answers, (1 - value) * answers
    low = 0.0 if value <= ROUNDING else beta_quantile(tail, a=right, b=wrong + 1)
    high = 1.0 if value >= 1 - ROUNDING else beta_quantile(1 - tail, a=right + 1, b=wrong)
    return Interval(value=value, low=min(low, value), high=max(high, value))
