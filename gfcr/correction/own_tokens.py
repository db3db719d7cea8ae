"""Of rollouts that older policies began, only the newest tokens are learned from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.values.ranges import Natural


@final
@dataclass(kw_only=True)
class OwnTokens(Correction):
    """Masks tokens that a policy more than `max_lag` versions older than this one sampled.

    For rollouts that are resumed: their prefixes are context, not lesson.
    """

    weighs_gaps: ClassVar[bool] = False

    max_lag: Natural = 0

    def heeds(self, *, oldest: int) -> bool:
        return self.max_lag < oldest

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        return [
            Corrected(mask_T=u.rollout.mask_T & (u.version - u.rollout.versions_T <= self.max_lag))
            for u in update
        ]
