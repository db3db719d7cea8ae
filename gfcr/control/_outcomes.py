"""Counts right and wrong answers of a group."""

from gfcr.handles.prompts import rewards
from gfcr.types import Group


def outcomes(group: Group, *, threshold: float) -> tuple[int, int]:
    """Returns (right, scored) among a group's `rewards`; right is one >= `threshold`.

    Unscorable rollouts are neither right nor wrong.
    """
    scored = rewards(group)
    return sum(reward >= threshold for reward in scored), len(scored)
