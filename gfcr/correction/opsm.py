"""OPSM: bad rollouts that the policy has moved away from are left out of the loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class Opsm(Correction):
    """Masks a rollout of negative advantage whose mean log(pi_sampled / pi) is over `delta`.

    Off-policy sequence masking: learning not to say what the policy would hardly say any more is
    what destabilises; good rollouts are kept however old.
    """

    paper: ClassVar[str] = "2512.02556"

    delta: NonNegative = 0.1
    """Nats a token."""
    masked: float = field(init=False, default=0.0)
    """Share of the last update's rollouts."""

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        # The gap is a mean, as a long rollout is no further off the policy for its length.
        kept = [u.advantage_T.sum() >= 0 or -u.mean_gap <= self.delta for u in update]
        self.masked = 1 - float(np.mean(kept))
        pairs = zip(update, kept, strict=True)
        return [Corrected(mask_T=learned.rollout.mask_T & k) for learned, k in pairs]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's rollouts that were masked."""
        return {"masked": self.masked}
