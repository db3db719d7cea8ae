"""Maps a judge's scores to the scale of rewards, without ever reversing their order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A linear map: reward = intercept + slope * score."""

    intercept: float
    slope: float


def fitted(pairs: Sequence[tuple[float, float]]) -> Line:
    """Returns the least-squares line of rewards on scores whose slope is not negative.

    Scores that are not, or negatively, correlated with the rewards all map to the mean reward.
    """
    scores, rewards = np.array(pairs, np.float64).T
    spread = float(scores.var())
    joint = float(((scores - scores.mean()) * (rewards - rewards.mean())).mean())
    slope = max(0.0, joint / spread) if spread > 0 else 0.0
    return Line(intercept=float(rewards.mean() - slope * scores.mean()), slope=slope)


def mid_ranks(values: Sequence[float]) -> list[float]:
    """Returns ranks from 0 (lowest) to 1; equal values get their mean rank, a single one 1/2."""
    if len(values) < 2:
        return [0.5] * len(values)
    array = np.asarray(values, np.float64)
    below = (array[None, :] < array[:, None]).sum(axis=1)
    equal = (array[None, :] == array[:, None]).sum(axis=1) - 1
    return ((below + equal / 2) / (len(values) - 1)).tolist()
