"""Means over seeds with 95 % intervals, as benches tell them."""

from collections.abc import Sequence
from math import exp, isnan, log, nan

from gfcr.stats.share import UNBOUNDED, mean_interval


def limits(values: Sequence[float]) -> dict[str, float]:
    """Mean and interval; of a single value there is none."""
    found = mean_interval(values, bounds=UNBOUNDED)
    if found is None:
        return {"value": values[0], "low": nan, "high": nan}
    return {"value": found.value, "low": found.low, "high": found.high}


def ratio_limits(ratios: Sequence[float]) -> dict[str, float]:
    """Geometric mean and interval of ratios above 0."""
    return {name: exp(value) for name, value in limits([log(r) for r in ratios]).items()}


def words(told: dict[str, float], *, scale: float = 1.0, digits: int = 2) -> str:
    """A mean and its interval, where there is one."""
    value, low, high = (f"{told[name] * scale:.{digits}f}" for name in ("value", "low", "high"))
    return value if isnan(told["low"]) else f"{value} ({low} to {high})"
