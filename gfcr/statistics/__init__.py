"""Statistics for few seeds: intervals that hold at n = 3, and 'inconclusive' as an answer."""

from gfcr.statistics.bootstrap import bootstrap_interval, iqm
from gfcr.statistics.interval import Interval, mean_interval
from gfcr.statistics.paired import (
    Comparison,
    Verdict,
    compare,
    holm,
    judge,
    probability_of_improvement,
)

__all__ = [
    "Comparison",
    "Interval",
    "Verdict",
    "bootstrap_interval",
    "compare",
    "holm",
    "iqm",
    "judge",
    "mean_interval",
    "probability_of_improvement",
]
