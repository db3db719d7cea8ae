"""What parts work with: jobs and plans, the view of the run, sessions and their trajectories.

Import these from `gfcr.stages`, which says who is handed what.
"""

from gfcr.handles.harvest import BATCH_FULL, REWARDS, Harvest, Retire, SampleMore
from gfcr.handles.jobs import Job, Plan
from gfcr.handles.session import Sampled, Scratch, Session, Trajectory, Verdict
from gfcr.handles.view import View

__all__ = [
    "BATCH_FULL",
    "REWARDS",
    "Harvest",
    "Job",
    "Plan",
    "Retire",
    "SampleMore",
    "Sampled",
    "Scratch",
    "Session",
    "Trajectory",
    "Verdict",
    "View",
]
