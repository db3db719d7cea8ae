"""Counts right and wrong answers of a group."""

from gfcr.types import Group


def outcomes(group: Group, *, threshold: float) -> tuple[int, int]:
    """Returns (right, scored) among a group's fresh rollouts; right is a reward >= `threshold`.

    Unscorable rollouts are neither right nor wrong.
    """
    fresh = [r.reward for r in group.rollouts if r.origin == "fresh" and r.reward is not None]
    return sum(reward >= threshold for reward in fresh), len(fresh)
