"""What forward passes cost: seconds for each, and for each token in them."""

import importlib
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from gfcr.errors import ConfigError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PassCost:
    """Seconds of forward passes: `base_s` each and `token_s` for every token in them."""

    base_s: float
    token_s: float

    def __post_init__(self) -> None:
        if not (self.base_s >= 0 and self.token_s >= 0 and self.base_s + self.token_s > 0):
            raise ConfigError(
                f"pass cost base_s={self.base_s}, token_s={self.token_s}: give two numbers >= 0, "
                "not both 0."
            )

    def seconds(self, *, passes: float = 1, tokens: float) -> float:
        """Returns the seconds of `passes` forward passes over `tokens` tokens in all."""
        return self.base_s * passes + self.token_s * tokens


def fit_pass_cost(*, passes_U: ArrayLike, tokens_U: ArrayLike, seconds_U: ArrayLike) -> PassCost:
    """Fits seconds = c_base passes + c_tok tokens by least squares, neither below 0.

    Args:
        passes_U: forward passes of each measurement.
        tokens_U: tokens in these passes, drafted ones included.
        seconds_U: time they took.

    Raises:
        ConfigError: fewer than two measurements, or none took any time.
    """
    counts_U2 = np.stack([np.asarray(passes_U, float), np.asarray(tokens_U, float)], axis=1)
    times_U = np.asarray(seconds_U, float)
    if len(times_U) < 2 or not times_U.max() > 0:
        raise ConfigError(
            f"a pass cost cannot be fitted to {len(times_U)} measurements with seconds "
            f"{times_U.tolist()}: give at least two, one of them above 0."
        )
    # Columns of equal size: passes and tokens differ by orders of magnitude.
    scale_2 = np.maximum(np.linalg.norm(counts_U2, axis=0), 1e-300)
    optimize: Any = importlib.import_module("scipy.optimize")
    costs_2 = optimize.nnls(counts_U2 / scale_2, times_U)[0] / scale_2
    return PassCost(base_s=float(costs_2[0]), token_s=float(costs_2[1]))
