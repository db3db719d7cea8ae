"""How many tokens to draft for whom: length-aware draft budgets (DAS, arXiv 2511.13841).

A forward pass over n tokens takes c_base + c_tok n. A request of l tokens that is offered p drafted
tokens in all accepts A(p) = k l (1 - exp(-alpha p / l)) of them, so it needs l - A(p) passes, and
the batch as many as its slowest request: N_fwd = max_i (l_i - A_i(p_i)). The budget minimises

    J = c_base N_fwd + c_tok sum_i p_i.

For a given N_fwd the cheapest p_i puts request i exactly on it:

    p_i* = -(l_i / alpha_i) ln(1 - (1 - N_fwd / l_i) / k_i)    where N_fwd < l_i, else 0,

which needs N_fwd > l_i (1 - k_i). This is derived from A(p); notes on the paper print the
logarithm's argument as 1 - k_i (1 - N_fwd / l_i), which agrees with A(p) only for k_i = 1.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gfcr.errors import ConfigError
from gfcr.speculation.cost import PassCost

Reals = NDArray[np.float64]


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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """The expected length of each request and how drafting shortens it; arrays of shape (N,)."""

    lengths_N: Reals
    """l > 0: tokens that each request will emit."""
    share_N: Reals
    """k in (0, 1]: share of the tokens that unlimited drafting would supply."""
    rate_N: Reals
    """alpha > 0: how fast the accepted share saturates with drafted tokens."""

    def passes(self, proposals_N: ArrayLike) -> Reals:
        """Returns the forward passes that each request needs with these drafted tokens, (N,)."""
        p_N = np.asarray(proposals_N, float)
        return self.lengths_N * (
            1 - self.share_N + self.share_N * np.exp(-self.rate_N * p_N / self.lengths_N)
        )

    def proposals(self, forward_passes: float) -> Reals:
        """Returns the fewest drafted tokens for each request to end in `forward_passes`, (N,).

        Infinite where no budget suffices: forward_passes <= l (1 - k).
        """
        excess_N = 1 - np.minimum(forward_passes / self.lengths_N, 1)
        with np.errstate(divide="ignore"):
            logs_N = np.log(np.maximum(1 - excess_N / self.share_N, 0))
        return -(self.lengths_N / self.rate_N) * logs_N


def best_budget(requests: Saturation, *, cost: PassCost) -> Reals:
    """Returns the drafted tokens over each request's life, (N,), that minimise J.

    Closed form inside, a search over N_fwd outside: J is convex in N_fwd, so that a bounded scalar
    search finds its minimum.
    """
    longest = float(requests.lengths_N.max())
    shortest = float((requests.lengths_N * (1 - requests.share_N)).max())

    def total(forward_passes: float) -> float:
        proposals = float(requests.proposals(forward_passes).sum())
        return cost.seconds(passes=forward_passes, tokens=proposals)

    # The bounded search tries no end of its range, and `longest` means to draft nothing.
    best = min((_search(total, low=shortest, high=longest), longest), key=total)
    return requests.proposals(best)


def _search(total: Callable[[float], float], *, low: float, high: float) -> float:
    optimize: Any = importlib.import_module("scipy.optimize")
    options = {"xatol": 1e-9 * high}
    return float(optimize.minimize_scalar(total, bounds=(low, high), options=options).x)


class LengthClass(StrEnum):
    """The class of a request by its expected length."""

    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"


@final
@dataclass(kw_only=True)
class LengthClasses:
    """The deployed form of the budget: three classes of length, each with a draft length.

    A prompt starts in the class of the moving average of its lengths so far, Short when it is new,
    and a request moves up as soon as what it has emitted passes a threshold. Short is never
    drafted for: it cannot set the makespan.
    """

    medium_from: int
    """Tokens from which a request is Medium, more than 0."""
    long_from: int
    """Tokens from which a request is Long, no fewer than `medium_from`."""
    medium_draft: int
    long_draft: int
    decay: float = 0.5
    """Weight of the past in the moving average."""
    means: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def observe(self, prompt_id: str, *, length: int) -> None:
        """Updates the moving average of a prompt with the length of one rollout."""
        before = self.means.get(prompt_id, float(length))
        self.means[prompt_id] = self.decay * before + (1 - self.decay) * length

    def class_of(self, prompt_id: str, *, emitted: int) -> LengthClass:
        """Returns the class of a request after `emitted` tokens; it never moves down."""
        expected = max(self.means.get(prompt_id, 0.0), emitted)
        if expected >= self.long_from:
            return LengthClass.LONG
        return LengthClass.MEDIUM if expected >= self.medium_from else LengthClass.SHORT

    def draft_length(self, prompt_id: str, *, emitted: int) -> int:
        """Returns the number of tokens to draft in the request's next pass."""
        drafts = {LengthClass.MEDIUM: self.medium_draft, LengthClass.LONG: self.long_draft}
        return drafts.get(self.class_of(prompt_id, emitted=emitted), 0)
