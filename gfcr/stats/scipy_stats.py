"""The modules taken from scipy, which ships no types, and what several modules ask of them."""

import importlib
from typing import Any

stats: Any = importlib.import_module("scipy.stats")
optimize: Any = importlib.import_module("scipy.optimize")
special: Any = importlib.import_module("scipy.special")


def t_quantile(level: float, *, df: int) -> float:
    """Returns the quantile of Student's t with `df` degrees of freedom at `level`."""
    return float(stats.t.ppf(level, df))
