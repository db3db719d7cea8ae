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
from gfcr.statistics.power import Components, components, detectable, power, seeds_needed

__all__ = [
    "Comparison",
    "Components",
    "Interval",
    "Verdict",
    "bootstrap_interval",
    "compare",
    "components",
    "detectable",
    "holm",
    "iqm",
    "judge",
    "mean_interval",
    "power",
    "probability_of_improvement",
    "seeds_needed",
]
