"""A correction of one's own: IcePop (2510.18855)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.values.ranges import Positive


@final
@dataclass(kw_only=True)
class Pop(Correction):
    """Masks tokens whose ratio pi / pi_sampled is outside `low` and `high`; weighs the others."""

    low: Positive = 0.5
    high: Positive = 5.0
    popped: int = field(init=False, default=0)

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        """See `Correction.correct`."""
        return [self._one(learned) for learned in update]

    def _one(self, learned: Learned) -> Corrected:
        ratio_T, mask_T = np.exp(learned.gaps_T), learned.rollout.mask_T
        inside_T = (ratio_T >= self.low) & (ratio_T <= self.high)
        self.popped += int((mask_T & ~inside_T).sum())
        return Corrected(weight=ratio_T, mask_T=mask_T & inside_T)

    def metrics(self) -> dict[str, float]:
        """Tokens popped so far."""
        return {"popped": float(self.popped)}


def ice(*, group_size: int = 4, low: float = 0.5, high: float = 5.0) -> Strategy:
    """GRPO with IcePop."""
    return Strategy(
        name="ice",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        correction=Pop(low=low, high=high),
        group_size=group_size,
    )
