"""The modules taken from scipy, which ships no types, and what several modules ask of them."""

import importlib
from collections.abc import Callable
from typing import Any

stats: Any = importlib.import_module("scipy.stats")
_optimize: Any = importlib.import_module("scipy.optimize")


def t_quantile(level: float, *, df: int) -> float:
    """Returns the quantile of Student's t with `df` degrees of freedom at `level`."""
    return float(stats.t.ppf(level, df))


def root(function: Callable[[float], float], *, low: float, high: float) -> float:
    """Returns where a function that changes sign between `low` and `high` is 0 (Brent)."""
    return float(_optimize.brentq(function, low, high))
