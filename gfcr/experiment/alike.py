"""Detects a first batch in which all rewards are equal, mostly because a verifier is wrong."""

from typing import Final

from gfcr.errors import shown
from gfcr.tasks.base import Task
from gfcr.types import RolloutBatch

_FEW: Final = 16
"""The least number of rollouts whose equal rewards are unlikely to be chance."""


def alike(batch: RolloutBatch, *, task: Task) -> str | None:
    """Returns a warning that shows one rollout and its answer; None where rewards differ."""
    fresh = [r for g in batch.groups for r in g.rollouts if r.origin == "fresh"]
    scored = [r for r in fresh if r.reward is not None]
    if len(scored) < _FEW or len({r.reward for r in scored}) > 1:
        return None
    one = max(scored, key=lambda r: len(r.text.strip()) > 0)
    return (
        f"all {len(scored)} rollouts that were scored in the first update have the reward "
        f"{one.reward:g}: there is nothing to learn from them. Does the verifier compare what it "
        f"should? {task.scoring}\n"
        f"  prompt      {shown(one.prompt.text)}\n"
        f"  completion  {shown(one.text)}\n"
        f"  answer      {shown(one.prompt.answer)}"
    )
