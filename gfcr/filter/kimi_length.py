"""Length reward relative to the group: short and right is best."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.filter._shaping import too_late
from gfcr.part import Recipe
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Finite, NonNegative


@final
@dataclass(kw_only=True)
class KimiLength(Filter):
    """Adds to each reward how short the rollout is among those of its prompt.

    With lambda = 0.5 - (n - n_min) / (n_max - n_min) over the group's rollouts not rejected, a
    right one (reward from `threshold` on) gets `weight` lambda more, any other one `weight` min(0,
    lambda): a short wrong answer is not paid for. Nothing is added where all are as long.
    Put the advantage map after it.

    Hurts early in training: the paper turns it on after a while, as it slows learning first. Groups
    with all right answers, dead otherwise, now train for length alone.
    """

    paper: ClassVar[str] = "2501.12599"
    cell: ClassVar[str] = "C6.4"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    weight: NonNegative = 1.0
    """The paper weighs the term too and does not say by how much."""
    threshold: Finite = 0.5

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return too_late(strategy, at=at)

    def apply(self, group: Group, *, view: View) -> Group:
        lengths_N = np.array([len(r) for r in group.rollouts], np.float64)
        kept_N = group.kept_N
        if not kept_N.any() or not (span := np.ptp(lengths_N[kept_N])):
            return group
        bonus_N = np.where(kept_N, 0.5 - (lengths_N - lengths_N[kept_N].min()) / span, 0.0)
        bonuses = zip((s.reward for s in group.signals), bonus_N.tolist(), strict=True)
        return group.with_rewards([self._shaped(reward, bonus) for reward, bonus in bonuses])

    def _shaped(self, reward: float | None, bonus: float) -> float | None:
        if reward is None:
            return None
        return reward + self.weight * (bonus if reward >= self.threshold else min(0.0, bonus))
