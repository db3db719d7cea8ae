"""One experiment: its identity, its run from the first prompt to its result, and its record."""

from gfcr.experiment.resolved import Resolved, resolve
from gfcr.experiment.running import run

__all__ = ["Resolved", "resolve", "run"]
