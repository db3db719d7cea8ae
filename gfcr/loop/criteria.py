"""The survey's criteria as numbers of a batch: reliability, coverage, cost (2605.02913)."""

from collections.abc import Sequence

import numpy as np

from gfcr.stages import Harvest
from gfcr.types import Rollout, Sample


def criteria(harvest: Harvest, *, samples: Sequence[Sample], generated: float) -> dict[str, float]:
    """Returns `reliability/...`, `coverage/...` and `cost/...` of a batch; NaN is not measured.

    Args:
        harvest: what the batch produced.
        samples: what of it is trained on.
        generated: tokens that were sampled for it.
    """
    fresh = [[r for r in g.rollouts if r.origin == "fresh"] for g in harvest.groups]
    groups = [rollouts for rollouts in fresh if rollouts]
    return {
        **_reliability([r for rollouts in groups for r in rollouts]),
        **_coverage(groups, samples=samples),
        **_cost(samples, generated=generated),
    }


def _reliability(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Share of rollouts that ended by themselves, and of those judged that got a verdict."""
    judged = [r for r in rollouts if r.reward is not None or r.error is not None]
    return {
        "reliability/whole": _share([str(r.finish) in ("stop", "halted") for r in rollouts]),
        "reliability/scored": _share([r.reward is not None for r in judged]),
    }


def _coverage(
    groups: Sequence[Sequence[Rollout]], *, samples: Sequence[Sample]
) -> dict[str, float]:
    """Of groups: different texts over rollouts, one right at least; of trained ones, a gradient."""
    rewards = [[r.reward for r in g if r.reward is not None] for g in groups]
    scored = [own for own in rewards if own]
    trained = {s.rollout.group_id for s in samples}
    return {
        "coverage/distinct": _mean([len({r.text for r in g}) / len(g) for g in groups]),
        "coverage/live": len(_live(samples)) / len(trained) if trained else np.nan,
        "coverage/solved": _share([max(own) >= 0.5 for own in scored]),
    }


def _cost(samples: Sequence[Sample], *, generated: float) -> dict[str, float]:
    """Groups with a gradient per 1,000 tokens sampled, and the share of these not trained.

    The share is below 0 where tokens are trained that earlier updates sampled.
    """
    return {
        "cost/live_groups_per_1k": 1000 * len(_live(samples)) / generated if generated else np.nan,
        "cost/discarded": 1 - _trained(samples) / generated if generated else np.nan,
    }


def _live(samples: Sequence[Sample]) -> set[str]:
    """Groups that have a gradient."""
    return {s.rollout.group_id for s in samples if np.any(s.advantage_T)}


def _trained(samples: Sequence[Sample]) -> int:
    """Tokens sampled for this batch and trained, what branches share counted once."""
    ends: dict[str, int] = {}
    for span in (
        s for each in samples if each.rollout.origin == "fresh" for s in each.rollout.spans
    ):
        ends[span.request_id] = max(ends.get(span.request_id, 0), span.stop)
    return sum(ends.values())


def _share(those: Sequence[bool]) -> float:
    return _mean([float(each) for each in those])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan
