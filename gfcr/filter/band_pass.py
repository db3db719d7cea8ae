"""Rejects groups whose success rate is out of a band."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.filter._choice import outcomes
from gfcr.filter._gates import check_order
from gfcr.handles import PROPOSE, role_of
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Finite


@final
@dataclass(kw_only=True)
class BandPass(Filter):
    """Keeps groups whose mean verifier reward lies in [low, high], bounds included.

    Looks at kept rollouts, before shaping. With n rollouts of success rate p a group is kept with
    the probability that a binomial (n, p) / n is in the band: a wide band of few rollouts passes
    much by luck.

    Groups that propose problems pass: their rewards are no success rate.

    Hurts where few prompts are in the band: the batch is refilled or trained short.
    """

    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    low: Finite = 0.25
    high: Finite = 0.75

    def __post_init__(self) -> None:
        check_order(self.low, self.high, keys=("band_pass.low", "band_pass.high"))

    @property
    def takes_shares(self) -> bool:
        return self.low >= 0 and self.high <= 1

    def apply(self, group: Group, *, view: View) -> Group:
        if role_of(group.prompt) == PROPOSE:
            return group
        rewards = outcomes(group)
        if not len(rewards):
            return group
        mean = float(np.mean(rewards))
        slack = 1e-6 * max(1.0, abs(mean))  # rewards such as 0.1 are rounded
        kept = self.low - slack <= mean <= self.high + slack
        return group if kept else group.reject("band_pass")
