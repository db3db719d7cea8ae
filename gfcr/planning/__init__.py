"""What a study will cost and what it can show, before anything runs."""

from gfcr.planning.cost import ArmPlan
from gfcr.planning.effects import Variance
from gfcr.planning.history import calibrate
from gfcr.planning.plan import Assumed, StudyPlan, plan
from gfcr.planning.tables import to_dict, to_rich

__all__ = [
    "ArmPlan",
    "Assumed",
    "StudyPlan",
    "Variance",
    "calibrate",
    "plan",
    "to_dict",
    "to_rich",
]
