"""An update whose weights rest on few tokens is skipped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.values.ranges import Positive, SomeShare


@final
@dataclass(kw_only=True)
class EssGuard(Correction):
    """Weighs by min(pi / pi_sampled, `cap`), and skips updates of a small effective sample size.

    ESS = (sum w)^2 / (n sum w^2) over the update's tokens, in (0, 1]; under `least` nothing of the
    update is learned from.
    """

    cap: Positive = 2.0
    least: SomeShare = 0.5
    ess: float = field(init=False, default=1.0)
    skipped: int = field(init=False, default=0)

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        weights = [np.minimum(np.exp(u.gaps_T), np.float32(self.cap)) for u in update]
        sampled = [w[u.rollout.mask_T] for w, u in zip(weights, update, strict=True)]
        # Sums of squares over many tokens lose digits in float32.
        every = np.concatenate(sampled).astype(np.float64)
        self.ess = float(every.sum() ** 2 / (len(every) * (every**2).sum()))
        if self.ess >= self.least:
            return [Corrected(weight=weight_T) for weight_T in weights]
        self.skipped += 1
        return [Corrected(mask_T=np.zeros_like(u.rollout.mask_T)) for u in update]

    def metrics(self) -> Mapping[str, float]:
        """The last update's effective sample size, as a share; updates skipped so far."""
        return {"ess": self.ess, "skipped": float(self.skipped)}
