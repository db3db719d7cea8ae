"""Statistics for few seeds: intervals that hold at n = 3, and 'inconclusive' as an answer."""

from gfcr.stats.aggregate import Profile, bootstrap_interval, iqm, performance_profile
from gfcr.stats.interval import Interval
from gfcr.stats.paired import (
    Comparison,
    NoiseFloor,
    Verdict,
    compare,
    holm,
    judge,
    noise_floor,
    probability_of_improvement,
)
from gfcr.stats.share import UNBOUNDED, Bounds, bounds_of, mean_interval

__all__ = [
    "UNBOUNDED",
    "Bounds",
    "Comparison",
    "Interval",
    "NoiseFloor",
    "Profile",
    "Verdict",
    "bootstrap_interval",
    "bounds_of",
    "compare",
    "holm",
    "iqm",
    "judge",
    "mean_interval",
    "noise_floor",
    "performance_profile",
    "probability_of_improvement",
]
