"""The three functions taken from `scipy.stats`, with types (scipy ships none)."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_stats: Any = importlib.import_module("scipy.stats")


def t_quantile(level: float, *, df: int) -> float:
    """Returns the value below which Student's t with `df` degrees of freedom falls at `level`."""
    return float(_stats.t.ppf(level, df))


def t_tail(value: float, *, df: int) -> float:
    """Returns P(t > value) of Student's t."""
    return float(_stats.t.sf(value, df))


def trimmed_mean(values: ArrayLike, *, share: float) -> NDArray[np.float64]:
    """Returns means over the last axis without its lowest and its highest `share` of entries."""
    return np.asarray(_stats.trim_mean(values, share, axis=-1), np.float64)
