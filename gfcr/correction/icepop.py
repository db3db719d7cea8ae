"""IcePop: tokens whose ratio leaves a band teach nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.errors import ConfigError
from gfcr.values.ranges import NonNegative, Positive


@final
@dataclass(kw_only=True)
class Icepop(Correction):
    """Weighs tokens by k = pi / pi_sampled where `low` <= k <= `high`, and by 0 elsewhere.

    For engines whose log-probs differ from the trainer's. Tokens outside count in what the loss
    is divided by, as in the paper.
    """

    paper: ClassVar[str] = "2510.18855"

    low: NonNegative = 0.5
    high: Positive = 5.0
    outside: float = field(init=False, default=0.0)
    """Share of the last update's tokens."""

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ConfigError(
                f"icepop.low={self.low} with icepop.high={self.high}: give low < high."
            )

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        ratios = [np.exp(learned.gaps_T) for learned in update]
        inside = [(self.low <= ratio_T) & (ratio_T <= self.high) for ratio_T in ratios]
        tokens = sum(int(learned.rollout.mask_T.sum()) for learned in update)
        kept = sum(int((i & u.rollout.mask_T).sum()) for i, u in zip(inside, update, strict=True))
        self.outside = 1 - kept / max(tokens, 1)
        pairs = zip(ratios, inside, strict=True)
        return [Corrected(weight=np.where(i, ratio_T, np.float32(0))) for ratio_T, i in pairs]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's tokens outside the band."""
        return {"outside": self.outside}
