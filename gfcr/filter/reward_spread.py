"""Rejects groups whose rewards spread less than is usual of late."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.filter._choice import outcomes
from gfcr.stages import Filter, Harvest, Observer, View
from gfcr.types import Group
from gfcr.values.ranges import Natural, NonNegative, Share


@final
@dataclass(kw_only=True)
class RewardSpread(Filter, Observer):
    """From update `begin` on, keeps groups with std(r) >= `beta` x the usual one.

    The usual one is a moving average over updates of the mean std of their groups, those it rejects
    included: m <- `decay` m + (1 - decay) mean(std). Rewards are those given before shaping, as in
    `group/reward_std`. It needs no scale of rewards, and moves with the policy: made for rewards
    that are not 0 or 1, such as probabilities. Put it before other filters that reject: it does not
    see their groups, which would be missing from the average.

    Hurts where all groups lose their spread together: the threshold sinks with them and lets
    through what a fixed one would not.
    """

    paper: ClassVar[str] = "2506.18254"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    beta: NonNegative = 0.5
    decay: Share = 0.99
    begin: Natural = 11
    """First update in which groups are rejected, counted from 0."""
    usual: float | None = field(init=False, default=None)
    """The moving average; None before the first update."""

    def fewest(self) -> int:
        return 2

    def apply(self, group: Group, *, view: View) -> Group:
        spread = _spread(group)
        group = group.with_values(reward_std=spread)
        known = self.usual is not None and view.step >= self.begin
        low = known and spread < self.beta * (self.usual or 0.0)
        return group.reject("reward_spread") if low else group

    def observe(self, harvest: Harvest, *, view: View) -> None:
        # Rejected groups count too: those let through spread more, so that of them alone the
        # average would rise, and the bar with it, update by update.
        found = [g.values["reward_std"] for g in harvest.groups if "reward_std" in g.values]
        if found:
            mean = float(np.mean(found))
            before = mean if self.usual is None else self.usual
            self.usual = self.decay * before + (1 - self.decay) * mean

    def metrics(self) -> Mapping[str, float]:
        """The usual standard deviation."""
        return {"usual": self.usual or 0.0}


def _spread(group: Group) -> float:
    rewards = outcomes(group)
    return float(rewards.std()) if len(rewards) else 0.0
