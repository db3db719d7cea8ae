"""Selection bias: whether the rollouts trained on differ from those generated."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gfcr.leaderboard.rows import Shift
from gfcr.stats import compare, holm
from gfcr.tracking.records import RunRecord

SERIES = ("length/all/mean", "length/trained/mean", "reward/all", "reward/trained")
_KINDS = {"length": ("length/all/mean", "length/trained/mean"), "difficulty": SERIES[2:]}


def shifts_of(runs: Sequence[RunRecord]) -> dict[str, Shift]:
    """Returns the shift of each kind that all the runs recorded.

    Rollouts of an update are no independent draws: an update's means, averaged over the seeds, are
    one observation, and the test is the paired t over the updates that trained on something. An
    arm that trains on all it generates has differences of exactly 0.
    """
    found: dict[str, Shift] = {}
    for kind, names in _KINDS.items():
        generated_U, trained_U = _paired(runs, names)
        if len(generated_U):
            if kind == "difficulty":
                generated_U, trained_U = 1 - generated_U, 1 - trained_U
            found[kind] = Shift(
                generated=float(generated_U.mean()),
                trained=float(trained_U.mean()),
                p_value=compare(trained_U, baseline=generated_U).p_value,
            )
    adjusted = holm([shift.p_value for shift in found.values()])
    return {k: replace(s, p_value=p) for (k, s), p in zip(found.items(), adjusted, strict=True)}


def note_of(kind: str, shift: Shift) -> str:
    """Returns the sentence about a significant shift."""
    more = shift.trained > shift.generated
    if kind == "length":
        words, form = ("longer" if more else "shorter", ".1f")
    else:
        words, form = ("harder" if more else "easier", ".2f")
    p_value = "p < 0.0001" if shift.p_value < 1e-4 else f"p = {shift.p_value:.4f}"
    return (
        f"selection bias: trains on {words} rollouts than it generates "
        f"({kind} {shift.trained:{form}} against {shift.generated:{form}}, {p_value})"
    )


def _paired(runs: Sequence[RunRecord], names: Sequence[str]) -> list[NDArray[np.float64]]:
    """Returns both metrics, means over runs, at the updates where all runs have finite values."""
    curves = [[dict(run.series.get(name, ())) for name in names] for run in runs]
    held = [
        {step for step, v in curve.items() if np.isfinite(v)} for pair in curves for curve in pair
    ]
    steps = sorted(set[int].intersection(*held))
    return [
        np.array([[pair[i][s] for s in steps] for pair in curves], np.float64).mean(0)
        for i in (0, 1)
    ]
