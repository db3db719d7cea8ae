"""Evidence that two arms do not differ by more than matters.

Shape suffix: `_SP` seeds by prompts.
"""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from gfcr.statistics.interval import Interval, mean_error, table
from gfcr.statistics.scipy_stats import t_tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """Two one-sided tests of a paired difference."""

    margin: float
    difference: Interval
    """With its interval at 1 - 2 x level (90 % for tests at 5 %)."""
    p_value: float
    """The larger of the two one-sided p-values."""
    holds: bool
    """Whether both tests reject: the interval lies inside the margin."""


def equivalence(
    arm: ArrayLike, *, baseline: ArrayLike, margin: float, level: float = 0.05
) -> Equivalence | None:
    """Tests that |arm - baseline| < margin; None with one pair, which can show nothing.

    Two one-sided tests (Schuirmann 1987) on the paired difference, with `mean_error`'s error and
    S - 1 degrees of freedom. With one column they are those of `statsmodels`' `ttost_paired`.

    Args:
        arm: scores `(S,)` or `(S, P)`; also the points of a learning curve, seeds by updates.
        baseline: same seeds and prompts in the same order.
        margin: largest difference that would not matter, above 0, in the unit of the scores.
        level: of each test.
    """
    difference_SP = table(arm) - table(baseline)
    assert margin > 0, "a margin of equivalence is above 0"
    if len(difference_SP) < 2:
        return None
    mean = mean_error(difference_SP)
    p_value = max(
        _tail(mean.value + margin, error=mean.error, df=mean.df),
        _tail(margin - mean.value, error=mean.error, df=mean.df),
    )
    return Equivalence(
        margin=margin,
        difference=mean.interval(level=1 - 2 * level),
        p_value=p_value,
        holds=p_value < level,
    )


def _tail(distance: float, *, error: float, df: int) -> float:
    if error == 0.0:
        return float(distance <= 0)
    return t_tail(distance / error, df=df)
