"""Rollout trees in tests: leaves by hand, and what holds of every tree that was generated."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gfcr.testing import factories as make
from gfcr.types import Rollout, RolloutBatch, Span


def leaf(index: int, *, spans: list[tuple[str, int]], reward: float | None, **changes: Any) -> Any:
    """A rollout made of the first tokens of these requests."""
    length = sum(num for _, num in spans)
    pieces = tuple(Span(request_id=r, start=0, stop=num) for r, num in spans)
    return make.rollout(index, reward=reward, length=length, spans=pieces, **changes)


def provenance(rollout: Rollout) -> list[tuple[str, int]]:
    """Of each sampled token, the request that generated it and its number there."""
    return [(s.request_id, i) for s in rollout.spans for i in range(s.start, s.stop)]


def trunk_is_generated_once(pipeline: Any, batch: RolloutBatch) -> None:
    """Branches share their parents' tokens, each generated once and accounted for."""
    rollouts = [r for g in batch.groups for r in g.rollouts]
    by_id = {r.id: r for r in rollouts}
    for child in (r for r in rollouts if r.parent):
        parent, at = by_id[str(child.parent)], child.fork_at
        for field in ("tokens_T", "logprobs_T", "versions_T", "mask_T"):
            np.testing.assert_array_equal(getattr(child, field)[:at], getattr(parent, field)[:at])
    once = {token for r in rollouts for token in provenance(r)}
    assert pipeline.engine.stats().generated_tokens == len(once) < _total(rollouts)
    assert pipeline.ledger.bins() == {"trained": len(once)}


def _total(rollouts: Sequence[Rollout]) -> int:
    return sum(int(r.mask_T.sum()) for r in rollouts)
