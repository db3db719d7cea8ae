"""Chooses the draft length of each running request in the next pass."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.simulation.acceptance import Acceptance, Counts
from gfcr.errors import ConfigError
from gfcr.speculation.budget import LengthClasses, Saturation, best_budget
from gfcr.speculation.cost import PassCost


class Drafting(ABC):
    """A way to choose draft lengths."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """The longest draft that it ever asks for."""

    @abstractmethod
    def lengths(self, running: Counts, *, emitted: Counts) -> Counts:
        """Returns the draft length of each running request, (R,).

        Args:
            running: indices of the requests in the pass, (R,).
            emitted: tokens that each has emitted, (R,).
        """


@final
@dataclass(frozen=True, slots=True)
class PerRequest(Drafting):
    """Gives each request a fixed draft length, (N,)."""

    draft_N: Counts

    def __post_init__(self) -> None:
        if (self.draft_N < 0).any():
            raise ConfigError(f"draft length {int(self.draft_N.min())}: give a number >= 0.")

    @property
    def longest(self) -> int:
        return int(self.draft_N.max(initial=0))

    def lengths(self, running: Counts, *, emitted: Counts) -> Counts:
        return self.draft_N[running]


def fixed(draft: int, *, requests: int) -> PerRequest:
    """Returns the same draft length for all requests."""
    return PerRequest(np.full(requests, draft))


@final
class Switch(Drafting):
    """Takes the draft length, 0 included, that emits most tokens a second at the number running.

    The adaptive switch of TLT, FastGRPO and ReSpec, with its table computed from the cost model:
    speed(R, k) = R alpha(k) / (c_base + c_tok R (k + 1)).
    """

    def __init__(
        self, acceptance: Acceptance, *, cost: PassCost, max_running: int, longest: int
    ) -> None:
        emitted_K = np.array([acceptance.length(k) for k in range(longest + 1)])
        tokens_RK = np.arange(max_running + 1)[:, None] * np.arange(1, longest + 2)
        speed_RK = emitted_K / np.maximum(cost.base_s + cost.token_s * tokens_RK, 1e-300)
        self._best_R = speed_RK.argmax(axis=1)

    @property
    def longest(self) -> int:
        return int(self._best_R[1:].max())

    def lengths(self, running: Counts, *, emitted: Counts) -> Counts:
        return np.full(len(running), self._best_R[len(running)])


@final
@dataclass(frozen=True, slots=True)
class ByClass(Drafting):
    """Takes draft lengths of `LengthClasses` for new prompts: classes move up on line only."""

    classes: LengthClasses

    @property
    def longest(self) -> int:
        return self.classes.long_draft

    def lengths(self, running: Counts, *, emitted: Counts) -> Counts:
        drafts = [self.classes.draft_length("", emitted=int(n)) for n in emitted]
        return np.array(drafts, np.int64)


def budgeted(
    lengths_N: Counts, *, acceptance: Acceptance, cost: PassCost, longest: int
) -> PerRequest:
    """Returns draft lengths from DAS's closed-form budget, with the true lengths known.

    The budget is in drafted tokens over a request's life, A(p) in two constants: both are taken
    from the acceptance by position. The proposals p_i* spread over the passes p_i* leaves to the
    request give its draft length.
    """
    if longest == 0:
        return fixed(0, requests=len(lengths_N))
    share, rate = saturation_of(acceptance, longest=longest)
    lengths = lengths_N.astype(float)
    requests = Saturation(
        lengths_N=lengths,
        share_N=np.full(len(lengths), share),
        rate_N=np.full(len(lengths), rate),
    )
    budget_N = best_budget(requests, cost=cost)
    draft_N = np.rint(budget_N / requests.passes(budget_N))
    return PerRequest(np.clip(draft_N, 0, longest).astype(np.int64))


def saturation_of(acceptance: Acceptance, *, longest: int) -> tuple[float, float]:
    """Returns the constants (k, alpha) of A(p) = k l (1 - exp(-alpha p / l)) for an acceptance.

    With draft length d a request of length l takes l / a(d) passes, a(d) its acceptance length, so
    p / l = d / a(d) and A / l = 1 - 1 / a(d). The curve is laid through the longest draft's point,
    with the slope that drafting begins with (the first position's acceptance) where k <= 1 allows.
    """
    emitted = acceptance.length(longest)
    offered, reached = longest / emitted, 1 - 1 / emitted
    if reached <= 0:
        return 1e-9, 1.0
    low, high = -np.log1p(-min(reached, 1 - 1e-9)) / offered, 1e3
    # The slope k * alpha of the curves through the point grows with alpha; k = 1 at the lowest.
    for _ in range(60):
        middle = (low * high) ** 0.5
        flat = middle * reached / -np.expm1(-middle * offered) < acceptance.by_position[0]
        low, high = (middle, high) if flat else (low, middle)
    return min(1.0, float(reached / -np.expm1(-low * offered))), float(low)
