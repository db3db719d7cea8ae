"""Rollouts too far off the policy are left out of the loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned, Level
from gfcr.errors import ConfigError
from gfcr.values.ranges import NonNegative, Positive


@final
@dataclass(kw_only=True)
class Band(Correction):
    """Masks each rollout whose ratio pi / pi_sampled leaves [`low`, `high`].

    `geometric` takes the mean of the log-ratios, whatever the length; `sequence` their sum.
    """

    low: NonNegative = 0.99
    high: Positive = 1.01
    level: Level = "geometric"
    masked: float = field(init=False, default=0.0)
    """Share of the last update's rollouts."""

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ConfigError(f"band.low={self.low} with band.high={self.high}: give low < high.")

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        inside = [self.low <= learned.ratio(self.level) <= self.high for learned in update]
        self.masked = 1 - float(np.mean(inside))
        return [
            Corrected(mask_T=learned.rollout.mask_T & kept)
            for learned, kept in zip(update, inside, strict=True)
        ]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's rollouts that were masked."""
        return {"masked": self.masked}
