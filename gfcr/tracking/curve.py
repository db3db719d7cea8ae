"""The curve of a run's held-out score, as its result records it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Point: TypeAlias = tuple[float, float, float, float]
"""A point of a run's curve: (update, generated tokens, seconds, held-out score)."""


def floored(result: Mapping[str, Any], *, least: float | None = None) -> list[Point]:
    """Returns a run's curve with its scores where unscorable answers count as the lowest reward.

    A stopping rule, a target or a search that read the scores as they are would favour an arm
    whose wrong answers nobody could score.

    Args:
        result: the run's result.
        least: the lowest reward; None takes the declared one, else 0 or the lowest of this run.
    """
    heldout = result.get("heldout", {})
    asked = heldout.get("asked", {})
    total = asked.get("prompts", 0) * asked.get("samples", 0)
    if least is None:
        least, _ = result.get("reward_range") or (None, None)
    ends: list[Any] = [heldout.get(when) or {} for when in ("before", "after")]
    seen: list[float] = [score for end in ends for score in end.get("per_prompt", {}).values()]
    curve: Sequence[Sequence[float]] = result.get("curve") or ()
    lost: Sequence[int] = result.get("unscorable") or [0] * len(curve)
    found: list[Point] = []
    for (update, tokens, seconds, score), num in zip(curve, lost, strict=True):
        share = num / total if num else 0.0
        low = min(0.0, score, *seen) if least is None else least
        # Where no answer was scored the mean is NaN.
        floor = (1 - share) * (score if share < 1 else 0.0) + share * low if num else score
        found.append((update, tokens, seconds, floor))
    return found


def reached(points: Sequence[Point], *, target: float) -> Point | None:
    """Returns the first evaluation at the target whose mean with the next one is there too.

    One of many may be there by luck. The last one, by which nothing is won, counts by itself.
    """
    least = target - 1e-12 * abs(target)  # the mean of equal scores may be above them by rounding
    pairs = zip(points, [*points[1:], *points[-1:]], strict=True)
    return next((a for a, b in pairs if min(a[3], (a[3] + b[3]) / 2) >= least), None)
