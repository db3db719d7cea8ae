"""Rollouts whose ratio is over a cap teach nothing; the others are weighed by it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned, Level
from gfcr.errors import ConfigError
from gfcr.values.ranges import NonNegative, Positive


@final
@dataclass(kw_only=True)
class SequenceMask(Correction):
    """Weighs a rollout by its ratio pi / pi_sampled in [`low`, `cap`], and by 0 outside.

    `sequence` takes the ratio of the rollout's probabilities, exp(sum of the gaps): TRL's
    `sequence_mask`. Rollouts of weight 0 count in what the loss is divided by, as there.

    Hurts long rollouts: a gap of -0.01 a token makes a weight of 0.37 out of 100 tokens and of
    0.00005 out of 1,000, so that a whole batch shrinks though every token is nearly on policy.
    `geometric` takes the length-th root, which does not depend on the length.
    """

    origin: ClassVar[str] = "S"
    tokenwise: ClassVar[bool] = False

    cap: Positive = 3.0
    low: NonNegative = 0.0
    level: Level = "sequence"
    masked: float = field(init=False, default=0.0)
    """Share of the last update's rollouts."""
    weight: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        if self.low >= self.cap:
            raise ConfigError(
                f"sequence_mask.low={self.low} with sequence_mask.cap={self.cap}: give low < cap."
            )

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        ratios = [learned.ratio(self.level) for learned in update]
        weights = [ratio if self.low <= ratio <= self.cap else 0.0 for ratio in ratios]
        self.masked = float(np.mean([weight == 0 for weight in weights]))
        self.weight = float(np.mean(weights))
        return [Corrected(weight=weight) for weight in weights]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's rollouts outside; mean weight, far below 1 when it shrinks."""
        return {"masked": self.masked, "weight": self.weight}
