"""Tokens or rollouts of a large estimated divergence are left out of the loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.types import Bools, Floats
from gfcr.values.ranges import Positive


@final
@dataclass(kw_only=True)
class K3Mask(Correction):
    """Masks where k3 = k - 1 - log k exceeds `most`, k being pi / pi_sampled.

    k3 is never negative, 0 on policy, and in the mean over what was sampled the divergence
    KL(pi_sampled || pi). `token` masks tokens by their own, `mean` rollouts by the mean over their
    tokens, `largest` rollouts by their worst token. What is masked is out of what the loss is
    divided by.

    Hurts rare tokens with `token`: those whose probability changed are those being learned. k3 is
    not symmetric: a token ten times as likely as before counts 6.7, one a tenth as likely 1.4.
    """

    origin: ClassVar[str] = "ours"

    most: Positive = 0.01
    """In nats."""
    level: Literal["token", "mean", "largest"] = "mean"
    masked: float = field(init=False, default=0.0)
    """Share of the last update's tokens."""
    divergence: float = field(init=False, default=0.0)

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        k3 = [_k3_T(learned.gaps_T) for learned in update]
        own = [k3_T[u.rollout.mask_T] for k3_T, u in zip(k3, update, strict=True)]
        kept = [
            u.rollout.mask_T & self._inside(k3_T, own_T)
            for u, k3_T, own_T in zip(update, k3, own, strict=True)
        ]
        tokens = max(sum(map(len, own)), 1)
        self.masked = 1 - sum(int(mask_T.sum()) for mask_T in kept) / tokens
        self.divergence = float(sum(own_T.sum() for own_T in own)) / tokens
        return [Corrected(mask_T=mask_T) for mask_T in kept]

    def metrics(self) -> Mapping[str, float]:
        """Share of the last update's tokens that were masked; mean k3, in nats a token."""
        return {"masked": self.masked, "divergence": self.divergence}

    def _inside(self, k3_T: np.ndarray, own_T: np.ndarray) -> Bools:
        if self.level == "token":
            return k3_T <= self.most
        found = own_T.mean() if self.level == "mean" else own_T.max()
        return np.full(k3_T.shape, found <= self.most)


def _k3_T(gaps_T: Floats) -> np.ndarray:
    gaps = np.minimum(gaps_T.astype(np.float64), 80.0)
    # expm1 keeps the digits near 0, where most tokens are and exp(gap) - 1 would lose them.
    return np.expm1(gaps) - gaps
