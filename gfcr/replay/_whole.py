"""Groups that are kept and trained on again as they are."""

from dataclasses import replace

from gfcr.stages import Job, View
from gfcr.types import Group, Rollout


def kept_rollouts(group: Group) -> tuple[Rollout, ...]:
    """Returns a group's rollouts without those that filters rejected."""
    return tuple(r for r, kept in zip(group.rollouts, group.kept_N, strict=True) if kept)


def again(rollouts: tuple[Rollout, ...], *, view: View) -> Job:
    """Returns the job that gives a group back: all are whole, so nothing is sampled or verified."""
    return replace(view.job(rollouts[0].prompt, num_samples=len(rollouts)), resume=rollouts)
