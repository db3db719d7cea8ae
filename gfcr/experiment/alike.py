"""A first batch in which every rollout got the same reward: mostly a verifier's mistake."""

from typing import Final

from gfcr.errors import shown
from gfcr.tasks.base import Task
from gfcr.types import RolloutBatch

_FEW: Final = 16
"""Rollouts that may well be alike by chance."""


def alike(batch: RolloutBatch, *, task: Task) -> str | None:
    """Says so, with one rollout and what it was compared with; None where rewards differ."""
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
