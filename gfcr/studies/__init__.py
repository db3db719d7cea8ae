"""Studies from Python and notebooks: plan, run, read, rank, plot."""

from gfcr.studies.bands import over_seeds
from gfcr.studies.handle import StudyHandle, study

__all__ = ["StudyHandle", "over_seeds", "study"]
