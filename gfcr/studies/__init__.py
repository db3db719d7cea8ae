"""Runs and studies from Python and notebooks: plan, run, read, rank, plot."""

from gfcr.studies.handle import StudyHandle, study
from gfcr.studies.plots import over_seeds
from gfcr.studies.single import RunHandle, run

__all__ = ["RunHandle", "StudyHandle", "over_seeds", "run", "study"]
