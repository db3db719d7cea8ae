"""Studies: the arms and seeds of one file, each trial in its own process, resumable."""

from gfcr.sweep import decisions
from gfcr.sweep.ending import edited, notes, problems
from gfcr.sweep.read import from_values, load, trial_of
from gfcr.sweep.scores import score_at
from gfcr.sweep.searching import run, unfolded
from gfcr.sweep.study import Study, Trial, TrialEnd

__all__ = [
    "Study",
    "Trial",
    "TrialEnd",
    "decisions",
    "edited",
    "from_values",
    "load",
    "notes",
    "problems",
    "run",
    "score_at",
    "trial_of",
    "unfolded",
]
