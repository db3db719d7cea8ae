"""GSPO (arXiv 2507.18071): one ratio a rollout, normalised by its length, and clipped whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class SequenceClip(Correction):
    """Weighs by s = (pi / pi_sampled)^(1/length), and by 0 where min(s A, clip(s) A) is flat."""

    paper: ClassVar[str] = "2507.18071"
    tokenwise: ClassVar[bool] = False

    low: NonNegative = 3e-4
    high: NonNegative = 4e-4
    clipped: float = field(init=False, default=0.0)
    """Share of the last update's rollouts."""

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        """See `Correction.correct`."""
        weights = [0.0 if self._flat(u) else u.ratio("geometric") for u in update]
        self.clipped = weights.count(0.0) / max(len(weights), 1)
        return [Corrected(weight=weight) for weight in weights]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's rollouts that were clipped."""
        return {"clipped": self.clipped}

    def _flat(self, learned: Learned) -> bool:
        ratio, sign = learned.ratio("geometric"), float(learned.advantage_T.sum())
        return ratio > 1 + self.high if sign > 0 else ratio < 1 - self.low


def gspo(*, group_size: int = 8, low: float = 3e-4, high: float = 4e-4) -> Strategy:
    """GRPO with a sequence's ratio; exact with one optimizer step a batch."""
    return Strategy(
        name="gspo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        group_size=group_size,
        loss=Loss(aggregation="grpo"),
        correction=SequenceClip(low=low, high=high),
    )
