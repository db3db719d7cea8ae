"""REINFORCE++: advantages normalised over the whole batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.filter._standard import standardised
from gfcr.stages import BatchMap, Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class ReinforcePp(Filter, BatchMap):
    """A = (r - b - mean over the batch) / (deviation over the batch + epsilon).

    The baseline b is 0 (REINFORCE++), or with `baseline=group` the mean reward of the rollout's
    group (REINFORCE++-baseline). Mean and deviation are those of the batch's kept rollouts, per
    token (a long rollout counts more, so that the update's advantages sum to 0) or per rollout.

    Unlike GRPO it does not divide by each group's deviation, which is an estimate from few
    rollouts and makes easy and hard prompts loud. Hurts without the group's baseline on prompts of
    unequal difficulty: an easy prompt's rollouts are all pushed up, a hard one's all down; with
    it, dead groups only shift by the batch's mean.
    """

    paper: ClassVar[str] = "2501.03262"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "S"
    gives_advantages = True

    baseline: Literal["none", "group"] = "none"
    per: Literal["tokens", "rollouts"] = "tokens"
    """What mean and deviation are taken over."""
    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-4
    mean: float = field(init=False, default=0.0)
    deviation: float = field(init=False, default=0.0)

    def fewest(self) -> int:
        return 2 if self.baseline == "group" else 1

    def apply(self, group: Group, *, view: View) -> Group:
        kept, rewards = group.kept_N, group.rewards_N
        base = float(rewards[kept].mean()) if self.baseline == "group" else 0.0
        pairs = zip(rewards, kept, strict=True)
        return group.with_advantages([float(np.float64(r) - base) if k else None for r, k in pairs])

    def map_batch(self, groups: Sequence[Group], *, view: View) -> Sequence[Group]:
        made, scale = standardised(groups, per=self.per, epsilon=self.epsilon)
        self.mean, self.deviation = scale
        return made

    def metrics(self) -> Mapping[str, float]:
        """Mean and deviation of the last batch's advantages, before they were normalised."""
        return {"mean": self.mean, "deviation": self.deviation}
