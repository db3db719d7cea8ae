"""Rejects groups whose rewards vary less than they could."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.filter._choice import outcomes
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Finite, Natural, Share


@final
@dataclass(kw_only=True)
class RewardVariance(Filter):
    """Keeps groups whose reward variance is at least `kappa` of the largest possible one (VCRL).

    With n kept rollouts and verifier rewards in [low, high]:
        p = var(r) / var_max,   var_max = (high - low)^2 floor(n/2) ceil(n/2) / (n (n-1)),
    the variance (ddof=1) of half `low`, half `high`. Of binary rewards, k right and n even, it is
    4 k (n-k) / n^2. From update `late_from` on the threshold is `late`. Measured as
    `group/reward_variance`.

    Hurts where success rates are near 0 or 1: most of what was generated is rejected.
    """

    paper: ClassVar[str] = "2509.19803"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "S"
    gives_advantages = False

    kappa: Share = 0.3
    late: Share = 0.8
    late_from: Natural = 20
    """First update of the late threshold, counted from 0."""
    low: Finite = 0.0
    """Lowest reward there is."""
    high: Finite = 1.0
    """Highest reward there is."""

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ConfigError(
                f"reward_variance.low={self.low:g} is not below reward_variance.high="
                f"{self.high:g}: give the lowest and the highest reward of the task."
            )

    @property
    def takes_shares(self) -> bool:
        return self.low >= 0 and self.high <= 1

    def fewest(self) -> int:
        return 2

    def apply(self, group: Group, *, view: View) -> Group:
        rewards = outcomes(group)
        share = self._share(rewards) if len(rewards) > 1 else 0.0
        group = group.with_values(reward_variance=share)
        kappa = self.late if view.step >= self.late_from else self.kappa
        return group if share >= kappa - 1e-6 else group.reject("reward_variance")

    def _share(self, rewards: np.ndarray) -> float:
        num = len(rewards)
        # The n - 1 of both variances cancel.
        largest = (self.high - self.low) ** 2 * (num // 2) * ((num + 1) // 2) / num
        return float(np.sum((rewards - rewards.mean()) ** 2) / largest)
