"""Truncated importance weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.part import Recipe
from gfcr.types import Floats
from gfcr.values.ranges import Positive


@final
@dataclass(kw_only=True)
class Truncated(Correction):
    """Weighs by min(pi / pi_sampled, `cap`): per token, or once for the whole rollout.

    `sequence` takes the ratio of the rollout's probabilities, which is far from 1 for long ones;
    `geometric` its length-th root, exp(mean log-ratio). A large cap is the decoupled loss.
    """

    paper: ClassVar[str] = "2505.24298"

    cap: Positive = 2.0
    level: Literal["token", "sequence", "geometric"] = "token"

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return super().clash(strategy, at=at) if self.level == "token" else None

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        return [Corrected(weight=self._weight(learned)) for learned in update]

    def _weight(self, learned: Learned) -> float | Floats:
        if self.level == "token":
            return np.minimum(np.exp(learned.gaps_T), np.float32(self.cap))
        return min(learned.ratio(self.level), self.cap)
