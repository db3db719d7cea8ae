"""LUFFY's shaping of what other policies sampled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.types import Floats
from gfcr.values.ranges import Positive


@final
@dataclass(kw_only=True)
class PolicyShaping(Correction):
    """Weighs tokens of replayed rollouts by gamma w / (w + gamma)^2, w being pi / pi_sampled.

    That is the gradient of w / (w + gamma), the shaped ratio of the paper's loss, over that of
    log pi: greatest at w = gamma, so that improbable tokens of good rollouts are taught, and small
    where the policy agrees already (0.08 at w = 1 for gamma = 0.1). Fresh rollouts weigh 1.

    Hurts where improbable tokens are improbable for a reason: nothing is clipped.
    """

    paper: ClassVar[str] = "2504.14945"
    origin: ClassVar[str] = "P"

    gamma: Positive = 0.1
    weight: float = field(init=False, default=1.0)
    """Mean over the last update's replayed tokens."""

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        replayed = [u for u in update if u.rollout.origin == "replay"]
        shaped = {id(u): self._shaped(u.gaps_T) for u in replayed}
        every = [shaped[id(u)][u.rollout.mask_T] for u in replayed]
        self.weight = float(np.concatenate(every).mean()) if every else 1.0
        return [Corrected(weight=shaped.get(id(u), 1.0)) for u in update]

    def metrics(self) -> Mapping[str, float]:
        """Mean weight of the last update's replayed tokens."""
        return {"weight": self.weight}

    def _shaped(self, gaps_T: Floats) -> Floats:
        # The square below overflows float32 from e^44.4 on.
        ratio_T = np.exp(np.minimum(gaps_T, np.float32(40)))
        return np.float32(self.gamma) * ratio_T / (ratio_T + np.float32(self.gamma)) ** 2
