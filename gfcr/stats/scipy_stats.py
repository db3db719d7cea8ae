"""The functions taken from scipy, with types (scipy ships none)."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_stats: Any = importlib.import_module("scipy.stats")
_optimize: Any = importlib.import_module("scipy.optimize")


def t_quantile(level: float, *, df: int) -> float:
    """Returns the quantile of Student's t with `df` degrees of freedom at `level`."""
    return float(_stats.t.ppf(level, df))


def t_tail(values: ArrayLike, *, df: int) -> NDArray[np.float64]:
    """Returns P(t > value) of Student's t, entry by entry."""
    return np.asarray(_stats.t.sf(values, df), np.float64)


def normal_quantile(level: float) -> float:
    """Returns the quantile of the standard normal distribution at `level`."""
    return float(_stats.norm.ppf(level))


def beta_quantile(level: float, *, a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Returns quantiles of beta distributions at `level`; NaN where a or b is 0."""
    return np.asarray(_stats.beta.ppf(level, a, b), np.float64)


def f_tail(value: float, *, df: int, df_error: int) -> float:
    """Returns P(F > value) of Fisher's F."""
    return float(_stats.f.sf(value, df, df_error))


def trimmed_mean(values: ArrayLike, *, share: float) -> NDArray[np.float64]:
    """Returns means over the last axis without its lowest and highest `share` of entries."""
    return np.asarray(_stats.trim_mean(values, share, axis=-1), np.float64)


def normal_tail(values: ArrayLike) -> NDArray[np.float64]:
    """Returns P(z > value) of the standard normal, entry by entry."""
    return np.asarray(_stats.norm.sf(values), np.float64)


def signed_rank(differences: ArrayLike) -> float:
    """Returns the p-value of Wilcoxon's signed-rank test that differences lie below 0.

    Those that are 0 count half on either side (`zsplit`).
    """
    found = _stats.wilcoxon(differences, alternative="less", zero_method="zsplit")
    return float(found.pvalue)


def root(function: Callable[[float], float], *, low: float, high: float) -> float:
    """Returns where a function that changes sign between `low` and `high` is 0 (Brent)."""
    return float(_optimize.brentq(function, low, high))
