"""Ends rollouts that have fallen into a loop."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.stages import Control, Halt, Harvest, Observer, Trajectory, View, Watcher
from gfcr.types import Ints
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class RepetitionStop(Control, Watcher, Observer):
    """Halts a rollout whose tail repeats a cycle of tokens, inside decoding.

    Fires when, for a period p <= max_period, each of the last max(min_repeats * p, min_tokens)
    tokens equals the one p before it (the first cycle excepted). The rollout is complete: it is
    scored, nearly always as wrong, and trained on, so that loops are unlearned at a fraction of
    their price. After TreePO's repetition stop (2508.17445).

    A new token costs O(max_period): per period, the length of the run of matches is kept.

    Hurts where repetition is the answer (long tables, copying); raise min_tokens there.
    """

    paper: ClassVar[str] = "2508.17445"
    cell: ClassVar[str] = "C6.5"
    origin: ClassVar[str] = "P"

    max_period: Annotated[int, Interval(ge=1, le=10000)] = 64
    min_repeats: Annotated[int, Interval(ge=2, le=10000)] = 4
    min_tokens: Count = 64
    halted: int = field(init=False, default=0)
    """Rollouts of the last batch."""
    saved_tokens: int = field(init=False, default=0)
    """Upper bound for the last batch: from the halt to the cap."""
    _now: tuple[int, int] = field(init=False, default=(0, 0))

    def __post_init__(self) -> None:
        # By trajectory. No memory: what is in the making cannot be kept, and is read again.
        self._tails: dict[Any, _Tail] = {}

    def watch(self, trajectory: Trajectory, *, new: int, view: View) -> Halt | None:
        tail = self._tails.get(trajectory)
        if tail is None:
            tail = self._tails[trajectory] = _Tail(
                max_period=self.max_period, min_repeats=self.min_repeats, min_tokens=self.min_tokens
            )
        period = tail.extend(trajectory.tokens)
        if not period:
            return None
        del self._tails[trajectory]
        halted, saved = self._now
        left = max(view.sampling.max_tokens - len(trajectory.tokens), 0)
        self._now = (halted + 1, saved + left)
        return Halt(reason=f"cycle of {period}")

    def observe(self, harvest: Harvest, *, view: View) -> None:
        (self.halted, self.saved_tokens), self._now = self._now, (0, 0)
        self._tails.clear()

    def metrics(self) -> dict[str, float]:
        """Rollouts halted in the last batch, and the tokens that could still have followed."""
        return {"halted": float(self.halted), "saved_tokens": float(self.saved_tokens)}


class _Tail:
    """Length of the run of matches at the end of a sequence, for every period at once."""

    def __init__(self, *, max_period: int, min_repeats: int, min_tokens: int) -> None:
        periods_P = np.arange(1, max_period + 1)
        self._needed_P = np.maximum(min_repeats * periods_P, min_tokens) - periods_P
        self._run_P = np.zeros(max_period, np.int32)
        self._last_P: Ints = np.full(max_period, -1, np.int32)
        """The last tokens, newest first; -1 before the first one."""
        self._window = int(self._needed_P[-1]) + max_period
        self._seen = 0

    def extend(self, tokens: Sequence[int]) -> int:
        """Takes in what was added to `tokens`; returns the shortest period that fires, or 0."""
        # Of a prefix not seen before (a fork, a resumed rollout) only the window can matter.
        start = max(self._seen, len(tokens) - self._window)
        if start > self._seen:
            self._run_P[:], self._last_P[:] = 0, -1
        for token in tokens[start:]:
            self._run_P += 1
            self._run_P *= self._last_P == token
            self._last_P[1:] = self._last_P[:-1]
            self._last_P[0] = token
        self._seen = len(tokens)
        fired_P = self._run_P >= self._needed_P
        return int(fired_P.argmax()) + 1 if fired_P.any() else 0
