"""What parts work with: jobs, plans, the view of the run, sessions, trajectories and notes."""

from gfcr.handles.harvest import (
    BATCH_FULL,
    Abort,
    Cap,
    Halt,
    Harvest,
    Retire,
    SampleMore,
    by_state,
)
from gfcr.handles.jobs import Job, Plan
from gfcr.handles.posed import PROPOSE, SOLVE, Posed, kind_of, role_of
from gfcr.handles.session import Sampled, Scratch, Session, Trajectory, Verdict
from gfcr.handles.view import TOOLS, TURNS, Scored, View
from gfcr.values.notes import EPISODE, JUDGED, MEASURED, REWARDS, STATE, STEP_REWARD

__all__ = [
    "BATCH_FULL",
    "EPISODE",
    "JUDGED",
    "MEASURED",
    "PROPOSE",
    "REWARDS",
    "SOLVE",
    "STATE",
    "STEP_REWARD",
    "TOOLS",
    "TURNS",
    "Abort",
    "Cap",
    "Halt",
    "Harvest",
    "Job",
    "Plan",
    "Posed",
    "Retire",
    "SampleMore",
    "Sampled",
    "Scored",
    "Scratch",
    "Session",
    "Trajectory",
    "Verdict",
    "View",
    "by_state",
    "kind_of",
    "role_of",
]
