"""The rollout doctor: pathologies of rollouts, found in a run's metrics, with levers against them.

The survey's diagnostic index (2605.02913) as rules, the rows of the tables in `gfcr.doctor.rules`.
"""

from gfcr.doctor.diagnosis import Diagnosis, Watcher, of_run
from gfcr.doctor.history import History
from gfcr.doctor.rule import Finding, Rule

__all__ = [
    "Diagnosis",
    "Finding",
    "History",
    "Rule",
    "Watcher",
    "of_run",
]
