"""What rules are made of: the figures, and the override, that many of them share."""

from math import ceil

from gfcr.doctor.history import History
from gfcr.doctor.rule import Figure, Overrides, Spec
from gfcr.tracking.names import HELDOUT
from gfcr.values.plain import at


def mean(metric: str, *, over: str | None = None) -> Figure:
    """Makes the figure: the metric's mean over the last window, or its ratio to another."""
    return lambda history: history.last(metric, over=over)


def largest(*figures: Figure) -> Figure:
    """Makes the figure: the largest of those that were measured."""

    def figure(history: History) -> float | None:
        measured = (each(history) for each in figures)
        return max((value for value in measured if value is not None), default=None)

    return figure


def kept(metric: str, *, floor: float = 0.0) -> Figure:
    """Makes the figure: the last window's mean over the first's, both above a floor."""

    def figure(history: History) -> float | None:
        first, last = history.first(metric), history.last(metric)
        if first is None or last is None or first <= floor:
            return None
        return (last - floor) / (first - floor)

    return figure


def excused(figure: Figure, *, by: str, above: float) -> Figure:
    """Makes the figure: 0 where the last window's mean of another metric is above a limit."""

    def judged(history: History) -> float | None:
        found, other = figure(history), history.last(by)
        if found is None or other is None:
            return None
        return 0.0 if other > above else found

    return judged


def rest(part: Figure) -> Figure:
    """Makes the figure: what another one, a share, leaves of 1."""

    def figure(history: History) -> float | None:
        share = part(history)
        return None if share is None else 1 - share

    return figure


def scale(history: History) -> float:
    """Returns what rewards are shares of: 1, or twice the largest mean where one is beyond 1."""
    rewards = (*history.series("reward/all").values, *history.series(HELDOUT).values)
    largest = max(map(abs, rewards), default=0.0)
    return 2 * largest if largest > 1 else 1.0


def scaled(setting: str, *, by: float, least: float = 0) -> Overrides:
    """Makes the override that multiplies a number that a spec has, to `least` or more."""

    def overrides(spec: Spec) -> tuple[str, ...]:
        held = at(spec, setting.split("."))  # trainers may have none
        if not isinstance(held, int | float):
            return ()
        value = max(by * held, least)
        return (f"{setting}={ceil(value) if isinstance(held, int) else f'{value:g}'}",)

    return overrides
