"""RSI selection (arXiv 2606.31575): tokens neither redundant nor far out for their entropy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.errors import ConfigError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Bools
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class Surprisal(Correction):
    """Keeps tokens with -log p / H in [low, high], H the entropy of the law they come from."""

    paper: ClassVar[str] = "2606.31575"
    weighs_gaps: ClassVar[bool] = False
    needs_entropies: ClassVar[bool] = True

    low: NonNegative = 0.1
    high: NonNegative = 3.0
    masked: float = field(init=False, default=0.0)
    """Share of the last update's tokens."""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ConfigError(f"surprisal.low={self.low} exceeds high={self.high}: swap them.")

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        """See `Correction.correct`."""
        masks = [self._kept(learned) for learned in update]
        sampled = sum(int(learned.rollout.mask_T.sum()) for learned in update)
        self.masked = 1 - sum(int(mask_T.sum()) for mask_T in masks) / max(sampled, 1)
        return [Corrected(mask_T=mask_T) for mask_T in masks]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's tokens that were masked."""
        return {"masked": self.masked}

    def _kept(self, learned: Learned) -> Bools:
        assert learned.entropies_T is not None
        index_T = -learned.logprobs_T / np.maximum(learned.entropies_T, 1e-8)
        return learned.rollout.mask_T & (self.low <= index_T) & (index_T <= self.high)


def rsi(*, group_size: int = 8, low: float = 0.1, high: float = 3.0) -> Strategy:
    """GRPO on tokens of a middling relative surprisal; index and band are our reading."""
    return Strategy(
        name="rsi",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        group_size=group_size,
        correction=Surprisal(low=low, high=high),
    )
