"""Draws measured claims: effects beside the smallest effect that matters, and what was learned."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims.entry import judged
from benchmarks.claims.verdict import Verdict
from gfcr.errors import ConfigError
from gfcr.shown import picture

Doubles: TypeAlias = NDArray[np.float64]
COLOURS: Final[Mapping[Verdict, str]] = {
    "seen": "tab:green",
    "saved but worse": "tab:orange",
    "smaller": "tab:olive",
    "not seen": "tab:blue",
    "contradicted": "tab:red",
    "inconclusive": "tab:gray",
}
_MOST: Final = 6.0
"""The limit of the picture, in multiples of the minimum effect."""


def draw(entries: Sequence[Mapping[str, Any]], *, path: Path) -> Path:
    """Draws each effect with its 95 % interval, in units of its claim's minimum effect.

    To its right are the held-out scores of strategy (coloured) and baseline (black) over the run.

    Args:
        entries: what `claims.entry.read_all` returned; they are judged together.
        path: the picture's file; its suffix is the format.

    Raises:
        ConfigError: there is no entry, or as `picture.save`.
    """
    if not entries:
        raise ConfigError(
            f"--plot {path}: nothing is measured: give --run and two --seeds or more, whose runs "
            "of both arms come to an end."
        )
    pairs = sorted(
        zip(entries, judged(entries), strict=True),
        key=lambda pair: (pair[0]["claim"]["regime"], _limits(pair[0])[1]),
    )
    figure = picture.new(9, 1.2 + 0.3 * len(pairs))
    axes, beside = figure.subplots(1, 2, sharey=True, width_ratios=[5, 1])
    for row, (entry, said) in enumerate(pairs):
        low, value, high = (min(max(x, -_MOST), _MOST) for x in _limits(entry))
        colour = COLOURS[said.verdict]
        axes.plot([low, high], [row, row], color=colour, linewidth=2)
        axes.plot([value], [row], "o", color=colour, markersize=5)
        for arm, shade in zip(_curves(entry), (colour, "black"), strict=False):
            beside.plot(*_placed(arm, row=row), color=shade, linewidth=1)
    axes.axvspan(-1, 1, color="black", alpha=0.06)
    axes.axvline(0, color="black", linewidth=0.8)
    beside.set_xticks([0, 1], ["start", "end"], fontsize=8)
    beside.set_xlabel("score")
    axes.set_yticks(range(len(pairs)), [_name(entry) for entry, _ in pairs], fontsize=8)
    axes.set_xlim(-_MOST, _MOST)
    axes.set_xlabel("effect / minimum effect; above 0 in the claimed direction")
    for verdict, colour in COLOURS.items():
        axes.plot([], [], "o-", color=colour, label=verdict)
    figure.legend(loc="outside upper center", ncols=len(COLOURS), fontsize=8)
    return picture.save(figure, path=path)


def _curves(entry: Mapping[str, Any]) -> list[list[list[tuple[float, float]]]]:
    """Returns the curves of both arms by seed; none where they were not recorded."""
    score: Mapping[str, Any] | None = entry["measured"].get("score")
    return score["curves"] if score else []


def _placed(
    curves: Sequence[Sequence[tuple[float, float]]], *, row: int
) -> tuple[Doubles, Doubles]:
    """Returns the mean over seeds at shares of the run, within its row of the picture."""
    shares = np.linspace(0, 1, 21)
    points = [np.asarray(one, np.float64) for one in curves]
    lines: list[Doubles] = [np.interp(shares * one[-1, 0], one[:, 0], one[:, 1]) for one in points]
    return shares, row - 0.4 + 0.8 * np.mean(lines, axis=0)


def _limits(entry: Mapping[str, Any]) -> tuple[float, float, float]:
    """Returns low, value and high over the minimum; an unknown end lies outside the picture."""
    found = entry["measured"]["comparison"]["difference"]
    given = [found["low"], found["value"], found["high"]]
    outside = (-_MOST, -_MOST, _MOST)
    low, value, high = (
        out if x is None else x / entry["minimum"] for x, out in zip(given, outside, strict=True)
    )
    return low, value, high


def _name(entry: Mapping[str, Any]) -> str:
    claim = entry["claim"]
    return f"{claim['strategy']}: {claim['measure'].replace('_', ' ')}, {claim['regime']}"
