"""Evidence that two arms do not differ by more than matters.

Shape suffix: `_SP` seeds by prompts.
"""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from gfcr.stats.interval import Interval, table
from gfcr.stats.paired import paired_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """Two one-sided tests of a paired difference."""

    margin: float
    difference: Interval
    """With the interval of the two tests; see `Mean.inner`."""
    p_value: float
    """The larger of the two one-sided p-values."""
    holds: bool
    """Whether both tests reject: the interval lies inside the margin."""


def equivalence(
    arm: ArrayLike,
    *,
    baseline: ArrayLike,
    margin: float,
    level: float = 0.05,
    span: float | None = None,
) -> Equivalence | None:
    """Tests that |arm - baseline| < margin; None with one pair, which can show nothing.

    Two one-sided tests (Schuirmann 1987) on the paired difference, with `Mean.inner`'s interval.
    With one column they are those of `statsmodels`' `ttost_paired`.

    Args:
        arm: scores `(S,)` or `(S, P)`; also the points of a learning curve, seeds by updates.
        baseline: same seeds and prompts in the same order.
        margin: largest difference that would not matter, above 0, in the unit of the scores.
        level: of each test.
        span: as in `compare`.
    """
    arm_SP, baseline_SP = table(arm), table(baseline)
    assert margin > 0, "a margin of equivalence is above 0"
    if len(arm_SP) < 2:
        return None
    mean = paired_mean(arm_SP, baseline_SP=baseline_SP, span=span)
    p_value = mean.p_within(margin=margin)
    return Equivalence(
        margin=margin,
        difference=mean.inner(level=level),
        p_value=p_value,
        holds=p_value < level,
    )
