"""The survey's criteria as numbers of a batch: reliability, coverage, cost (2605.02913)."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gfcr.stages import Harvest
from gfcr.types import FinishReason, Rollout, Sample

_COMPLETE: Final = (FinishReason.STOP, FinishReason.HALTED, FinishReason.ENDED)


def criteria(
    harvest: Harvest, *, samples: Sequence[Sample], generated: float, first_trained: int
) -> dict[str, float]:
    """Returns the `reliability/`, `coverage/` and `cost/` metrics of a batch; NaN is not measured.

    Args:
        harvest: what the batch produced.
        samples: the part of it that is trained on.
        generated: tokens that were sampled for it.
        first_trained: tokens that no batch before trained.
    """
    fresh = [[r for r in g.rollouts if r.origin == "fresh"] for g in harvest.groups]
    groups = [rollouts for rollouts in fresh if rollouts]
    return {
        **_reliability([r for rollouts in groups for r in rollouts]),
        **_coverage(groups, samples=samples),
        **_cost(samples, generated=generated, first_trained=first_trained),
    }


def _reliability(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Returns shares of rollouts that ended by themselves, and of judged ones with a verdict."""
    judged = [r for r in rollouts if r.reward is not None or r.error is not None]
    return {
        "reliability/whole": _mean([r.finish in _COMPLETE for r in rollouts]),
        "reliability/scored": _mean([r.reward is not None for r in judged]),
    }


def _coverage(
    groups: Sequence[Sequence[Rollout]], *, samples: Sequence[Sample]
) -> dict[str, float]:
    """Returns the shares of distinct texts, of groups solved, of trained ones with a gradient."""
    rewards = [[r.reward for r in g if r.reward is not None] for g in groups]
    scored = [own for own in rewards if own]
    trained = {s.rollout.group_id for s in samples}
    return {
        "coverage/distinct": _mean([len({r.text for r in g}) / len(g) for g in groups]),
        "coverage/live": len(_live(samples)) / len(trained) if trained else np.nan,
        "coverage/solved": _mean([max(own) >= 0.5 for own in scored]),
    }


def _cost(samples: Sequence[Sample], *, generated: float, first_trained: int) -> dict[str, float]:
    """Returns live groups per 1,000 sampled tokens, and the share of these tokens left untrained.

    The share is below 0 where tokens are trained that earlier updates sampled.
    """
    return {
        "cost/live_groups_per_1k": 1000 * len(_live(samples)) / generated if generated else np.nan,
        "cost/discarded": 1 - first_trained / generated if generated else np.nan,
    }


def _live(samples: Sequence[Sample]) -> set[str]:
    """Returns the ids of the groups whose advantages are not all 0, but for rounding."""
    return {s.rollout.group_id for s in samples if np.any(np.abs(s.advantage_T) > 1e-6)}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan
