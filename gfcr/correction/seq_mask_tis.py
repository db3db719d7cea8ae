"""Whole rollouts off a narrow band are left out; the others are weighed token by token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.errors import ConfigError
from gfcr.values.ranges import NonNegative, Positive


@final
@dataclass(kw_only=True)
class SeqMaskTis(Correction):
    """Masks rollouts by the geometric mean of pi / pi_sampled; weighs the others' tokens by it.

    A rollout stays if exp(mean gap) lies in [`low`, `high`], whatever its length; each of its
    tokens then gets min(pi / pi_sampled, `cap`). The band throws out what another policy would
    have said, the weights mend what is left.

    Hurts when the policy moves by more than the band between sampling and learning: every rollout
    is thrown out and nothing is learned.
    """

    origin: ClassVar[str] = "ours"

    low: NonNegative = 0.99
    high: Positive = 1.01
    cap: Positive = 2.0
    masked: float = field(init=False, default=0.0)
    """Share of the last update's rollouts."""

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ConfigError(
                f"seq_mask_tis.low={self.low} with seq_mask_tis.high={self.high}: give low < high."
            )

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        inside = [self.low <= learned.ratio("geometric") <= self.high for learned in update]
        self.masked = 1 - float(np.mean(inside))
        # The cap comes before exp, which a large gap would overflow.
        most = np.float32(np.log(self.cap))
        return [
            Corrected(weight=np.exp(np.minimum(u.gaps_T, most)), mask_T=u.rollout.mask_T & kept)
            for u, kept in zip(update, inside, strict=True)
        ]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's rollouts that were masked."""
        return {"masked": self.masked}
