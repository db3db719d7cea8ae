"""The score of a trial at one point of its course."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from gfcr.config import HELDOUT
from gfcr.experiment.source import Pause
from gfcr.sweep.study import Trial
from gfcr.tracking.curve import floored
from gfcr.tracking.folder import RunFolder


def score_at(trial: Trial, *, result: Mapping[str, Any], until: Pause | None) -> float | None:
    """Returns the study's metric where the run paused, or at its end; None where it is missing.

    Held-out answers that nobody could score count as the lowest reward: see `floored`.
    Another metric counts with its latest value at that update, one of training with the mean of the
    last five, as one batch may be good by luck.
    """
    curve = floored(result)
    if not curve:
        return None
    point = next((p for p in curve if until is not None and until.reached(p)), curve[-1])
    if trial.config.metric == HELDOUT:
        return point[3]
    found = [
        line.metrics[trial.config.metric]
        for line in RunFolder(trial.folder).metrics()
        if line.step <= point[0] and trial.config.metric in line.metrics
    ]
    latest = 1 if trial.config.metric.startswith("heldout/") else 5
    return fmean(found[-latest:]) if found else None
