"""The curve of a run's held-out score, as its result records it."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from statistics import fmean
from typing import Any, TypeAlias

Point: TypeAlias = tuple[float, float, float, float]
"""A point of a run's curve: (update, generated tokens, seconds, held-out score)."""


def floored(result: Mapping[str, Any]) -> list[Point]:
    """Returns a run's curve with its scores where unscorable answers count as the lowest reward.

    A stopping rule, a target or a search that read the scores as they are would favour an arm
    whose wrong answers nobody could score.
    """
    asked = result.get("heldout", {}).get("asked", {})
    total = asked.get("prompts", 0) * asked.get("samples", 0)
    least, _ = result.get("reward_range") or (None, None)
    curve: Sequence[Sequence[float]] = result.get("curve") or ()
    lost: Sequence[int] = result.get("unscorable") or [0] * len(curve)
    return [
        (update, tokens, seconds, _floor(score, share=num / total if num else 0.0, least=least))
        for (update, tokens, seconds, score), num in zip(curve, lost, strict=True)
    ]


def mean_of(rewards: Sequence[float | None], *, bounds: tuple[float, float] | None) -> float:
    """Returns the mean of rewards as `floored` has it: None is an answer that nobody could score.

    Args:
        rewards: of all answers.
        bounds: of the task's rewards, if it declares any.
    """
    scored = [reward for reward in rewards if reward is not None]
    least = bounds[0] if bounds and isfinite(bounds[0]) else None
    mean = fmean(scored) if scored else nan
    return _floor(mean, share=1 - len(scored) / len(rewards), least=least)


def _floor(score: float, *, share: float, least: float | None) -> float:
    """Returns a mean over all answers, of which a share has no reward; `score` is the others'."""
    # Undeclared, the lowest reward is taken to be 0, or the mean where that is lower.
    low = min(0.0, score) if least is None else least
    # Where no answer was scored the mean is NaN.
    return (1 - share) * (score if share < 1 else 0.0) + share * low if share else score


def reached(points: Sequence[Point], *, target: float) -> Point | None:
    """Returns the first evaluation at the target whose mean with the next one is there too.

    One of many may be there by luck. The last one, by which nothing is won, counts by itself.
    """
    pairs = zip(points, [*points[1:], *points[-1:]], strict=True)
    return next((a for a, b in pairs if min(a[3], (a[3] + b[3]) / 2) >= target), None)
