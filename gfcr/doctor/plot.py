"""Draws the metrics that the rules read of a run, a panel for each rule."""

from math import ceil
from pathlib import Path
from typing import Any, Final

from gfcr.doctor.diagnosis import figures
from gfcr.doctor.history import History
from gfcr.doctor.rule import Rule
from gfcr.shown import picture

_ACROSS: Final = 3
_FOUND: Final = "tab:red"


def draw(history: History, *, title: str, path: Path) -> Path:
    """Draws the metrics of every rule that was measured; what is found stands first, in red.

    Args:
        history: of the run.
        title: of the picture.
        path: of the picture; its ending says the format.

    Raises:
        ConfigError: as `picture.save`.
    """
    measured = figures(history)
    ordered = sorted(measured, key=lambda rule: -measured[rule] / rule.limit)
    down = max(1, ceil(len(ordered) / _ACROSS))
    figure = picture.new(4 * _ACROSS, 0.6 + 2.4 * down)
    figure.suptitle(title)
    panels: list[Any] = list(figure.subplots(down, _ACROSS, squeeze=False).flat)
    for axes, rule in zip(panels, ordered, strict=False):
        _panel(axes, rule, measured[rule], history=history)
    for axes in panels[len(ordered) :]:
        axes.set_axis_off()
    return picture.save(figure, path=path)


def _panel(axes: Any, rule: Rule, value: float, *, history: History) -> None:
    colour = _FOUND if value >= rule.limit else "black"
    axes.set_title(f"{rule.name}: {value:.3g} (limit {rule.limit:g})", fontsize=9, color=colour)
    for name in rule.metrics:
        series = history.series(name)
        if series.steps:
            axes.plot(series.steps, series.values, linewidth=1.2, label=name)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=6)
