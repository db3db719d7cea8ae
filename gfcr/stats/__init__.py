"""Statistics for few seeds: intervals that hold at n = 3, and 'inconclusive' as an answer."""

from gfcr.stats.aggregate import (
    Profile,
    optimality_gap,
    performance_profile,
    stratified_interval,
)
from gfcr.stats.bootstrap import bootstrap_interval, iqm
from gfcr.stats.interval import Interval
from gfcr.stats.noise import NoiseFloor, noise_floor
from gfcr.stats.paired import (
    Comparison,
    Verdict,
    compare,
    holm,
    judge,
    probability_of_improvement,
)
from gfcr.stats.power import Components, components, detectable, power, seeds_needed
from gfcr.stats.share import UNBOUNDED, Bounds, bounds_of, mean_interval

__all__ = [
    "UNBOUNDED",
    "Bounds",
    "Comparison",
    "Components",
    "Interval",
    "NoiseFloor",
    "Profile",
    "Verdict",
    "bootstrap_interval",
    "bounds_of",
    "compare",
    "components",
    "detectable",
    "holm",
    "iqm",
    "judge",
    "mean_interval",
    "noise_floor",
    "optimality_gap",
    "performance_profile",
    "power",
    "probability_of_improvement",
    "seeds_needed",
    "stratified_interval",
]
