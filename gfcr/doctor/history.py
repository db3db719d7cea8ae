"""The metrics that a run has logged so far, and means over windows of updates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean
from typing import Final, final

UPDATE: Final = "rollouts/all"
"""A metric that each update logs."""
FEWEST: Final = 5
"""A window has at least so many updates: one batch says little."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A metric over the updates that logged it."""

    steps: Sequence[int]
    values: Sequence[float]


@final
class History:
    """The metrics of a run's updates, in order.

    A window is a quarter of the updates that logged a metric, and 5 at least.

    Args:
        lines: (update, metrics) of each line of `metrics.jsonl`.
    """

    def __init__(self, lines: Iterable[tuple[int, Mapping[str, float]]]) -> None:
        self.lines = list(lines)
        self.updates = len(self.series(UPDATE).steps)

    def series(self, name: str, *, over: str | None = None) -> Series:
        """Returns a metric's finite values, or its ratios to another's where this is above 0."""
        held = [(s, m) for s, m in self.lines if isfinite(m.get(name, nan))]
        if over is not None:
            held = [(s, m) for s, m in held if m.get(over, 0) > 0]
        values = [m[name] / (1.0 if over is None else m[over]) for _, m in held]
        return Series(steps=[step for step, _ in held], values=values)

    def first(self, name: str) -> float | None:
        """Mean over the first window; None before there are two windows to compare."""
        values = self.series(name).values
        return fmean(values[: _window(values)]) if len(values) >= 2 * FEWEST else None

    def last(self, name: str, *, over: str | None = None) -> float | None:
        """Mean over the last window; None before there is one."""
        values = self.series(name, over=over).values
        return fmean(values[-_window(values) :]) if len(values) >= FEWEST else None

    def gain(self, name: str) -> float | None:
        """Returns how far the last window's mean lies above the first's; None as in `first`."""
        first, last = self.first(name), self.last(name)
        return None if first is None or last is None else last - first

    def increments(self, name: str) -> "History":
        """Returns what was added to a total in each update, under the same name."""
        before, found = 0.0, list[tuple[int, Mapping[str, float]]]()
        for step, metrics in self.lines:
            now = metrics.get(name, before)
            found.append((step, {**metrics, name: now - before}))
            before = now
        return History(found)


def _window(values: Sequence[float]) -> int:
    return max(FEWEST, len(values) // 4)
