"""Draws the arms of a simulation."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.simulation.arms import Arm
from gfcr.shown import picture


def draw(arms: Sequence[Arm], *, path: Path) -> Path:
    """Draws step time, split by what the learner waits for, and the speed-up with its bound.

    Raises:
        ConfigError: as `picture.save`.
    """
    figure = picture.new(10, 4)
    left, right = figure.subplots(1, 2)
    names = [f"{'k=' if a.draft.isdecimal() else ''}{a.draft}, lag {a.lag}" for a in arms]
    exposed = [a.exposed_s for a in arms]
    left.bar(names, exposed, label="waiting for generation", color="tab:orange")
    rest = [a.step_s - a.exposed_s for a in arms]
    left.bar(names, rest, bottom=exposed, label="learning and weight sync", color="tab:blue")
    left.set_ylabel("seconds an update")
    right.bar(names, [a.step_speedup for a in arms], color="tab:green", label="step speed-up")
    right.plot(names, [a.bound for a in arms], "k_", markersize=14, label="bound")
    right.axhline(1, color="grey", linewidth=0.8)
    for axes in (left, right):
        axes.tick_params(axis="x", labelrotation=90)
        axes.legend(fontsize=8)
    return picture.save(figure, path=path)
