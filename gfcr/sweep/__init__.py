"""Studies: the arms and seeds of one file, each trial in its own process, resumable."""

from gfcr.sweep import decisions
from gfcr.sweep.ending import notes, problems, remarks
from gfcr.sweep.read import from_values, load, trial_of
from gfcr.sweep.scores import score_at
from gfcr.sweep.searching import run, unfolded
from gfcr.sweep.study import Study, Trial, TrialEnd

__all__ = [
    "Study",
    "Trial",
    "TrialEnd",
    "decisions",
    "from_values",
    "load",
    "notes",
    "problems",
    "remarks",
    "run",
    "score_at",
    "trial_of",
    "unfolded",
]
