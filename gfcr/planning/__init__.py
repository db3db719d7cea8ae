"""Plans a study: what it will cost and what it can show, before anything runs."""

from gfcr.planning.plan import Assumed, plan
from gfcr.planning.record import StudyPlan

__all__ = ["Assumed", "StudyPlan", "plan"]
