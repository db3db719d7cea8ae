"""Draws timelines of schedulers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.jigsaw.timeline import Span
from benchmarks.systems.jigsaw import Row
from gfcr.shown import picture

_COLOURS: Final = {
    "train": "tab:red",
    "score": "tab:purple",
    "decode": "tab:blue",
    "tail": "tab:green",
}


def draw(rows: Sequence[Row], *, path: Path) -> Path:
    """Draws each scheduler's timeline: one bar per pipeline, as high as its share of the machine.

    Raises:
        ConfigError: as `picture.save`.
    """
    figure = picture.new(10, 1.6 * len(rows))
    for axes, row in zip(figure.subplots(len(rows), 1, sharex=True), rows, strict=True):
        for span in row.timeline.spans:
            _bars(axes, span)
        axes.set_ylabel(f"{row.scheduler}\n{row.faster:.2f}x", rotation=0, ha="right")
        axes.set_yticks([])
        axes.set_ylim(0, 1)
    figure.axes[-1].set_xlabel("seconds")
    _legend(figure)
    return picture.save(figure, path=path)


def _bars(axes: Any, span: Span) -> None:
    action, low = span.action, 0.0
    first = 1.0 if len(action.stages) == 1 else (action.share or 0.5)
    for name, share in zip(action.stages, (first, 1 - first), strict=False):
        wide = span.end_s - span.begin_s
        axes.barh(
            low + share / 2, wide, left=span.begin_s, height=share, color=_colour(name), ec="w"
        )
        axes.text(
            span.begin_s + wide / 2, low + share / 2, name.split("/")[0], ha="center", va="center"
        )
        low += share


def _colour(name: str) -> str:
    kind = name.rpartition("/")[2]
    return next(colour for begins, colour in _COLOURS.items() if kind.startswith(begins))


def _legend(figure: Any) -> None:
    for kind, colour in _COLOURS.items():
        figure.axes[0].plot([], [], color=colour, linewidth=6, label=kind)
    figure.legend(loc="outside upper center", ncols=len(_COLOURS), fontsize=8)
