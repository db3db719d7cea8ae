"""DHPO (arXiv 2601.05607): a token's ratio and its rollout's, clipped each by itself, mixed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Floats, Loss
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class Hybrid(Correction):
    """Weighs by half of r_t, and half of the length-th root of the rollout's ratio.

    Either is 0 where its own clipped objective, min(r A, clip(r) A), is flat.
    """

    paper: ClassVar[str] = "2601.05607"

    token: NonNegative = 0.2
    sequence: NonNegative = 4e-4
    clipped: float = field(init=False, default=0.0)
    """Share of the last update's tokens one of whose ratios is clipped."""

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        """See `Correction.correct`."""
        pairs = [self._ratios(learned) for learned in update]
        flat = [((own_T == 0) | (whole_T == 0)).mean() for own_T, whole_T in pairs]
        self.clipped = float(np.mean(flat))
        return [Corrected(weight=(own_T + whole_T) * np.float32(0.5)) for own_T, whole_T in pairs]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's tokens one of whose ratios was clipped."""
        return {"clipped": self.clipped}

    def _ratios(self, learned: Learned) -> tuple[Floats, Floats]:
        """The token's and the rollout's ratio, 0 where clipped."""
        signs_T = np.sign(learned.advantage_T)
        own_T = np.exp(np.minimum(learned.gaps_T, 80))
        whole_T = np.full_like(own_T, learned.ratio("geometric"))
        return (
            np.where((own_T - 1) * signs_T > self.token, np.float32(0), own_T),
            np.where((whole_T - 1) * signs_T > self.sequence, np.float32(0), whole_T),
        )


def dhpo(*, group_size: int = 8, token: float = 0.2, sequence: float = 4e-4) -> Strategy:
    """GRPO and GSPO mixed evenly (our reading); exact with one optimizer step a batch."""
    return Strategy(
        name="dhpo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        group_size=group_size,
        loss=Loss(aggregation="grpo"),
        correction=Hybrid(token=token, sequence=sequence),
    )
