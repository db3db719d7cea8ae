"""Rejects groups whose rewards are all equal."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class ZeroVariance(Filter):
    """Rejects dead groups: verifier rewards with a spread of at most `min_std` carry no signal.

    Looks at the verifier's rewards, before shaping. With success rate p and n rollouts a group is
    kept with probability 1 - p^n - (1-p)^n.
    """

    paper: ClassVar[str] = "2503.14476"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    min_std: NonNegative = 0.0

    def fewest(self) -> int:
        return 2

    def apply(self, group: Group, *, view: View) -> Group:
        spread = float(np.std(group.raw_rewards_N[group.kept_N]))
        # Equal rewards such as 0.1 have a spread of float noise, not of signal.
        return group.reject("zero_variance") if spread <= max(self.min_std, 1e-6) else group
