"""Studies from Python and notebooks: plan, run, read, rank, plot."""

from gfcr.studies.handle import StudyHandle, study
from gfcr.studies.plots import over_seeds

__all__ = ["StudyHandle", "over_seeds", "study"]
