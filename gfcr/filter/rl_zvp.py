"""RL-ZVP: groups without variance teach too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Finite, Positive


@final
@dataclass(kw_only=True)
class RlZvp(Filter):
    """GRPO's advantage in live groups; in dead ones `alpha` all right, -`alpha` all wrong.

    A group is dead where the verifier gave its kept rollouts, two or more, one reward. The
    correction of the same name multiplies the advantages of dead groups, token by token, by the
    entropy H_t (all right) or max H - H_t (all wrong): it needs the policy's own laws, which
    filters do not see. Without it the whole of a dead group is pushed alike.

    Put no filter behind it that rejects some of a group: what is left may look dead to the
    correction. Hurts when rewards are wrong: what a verifier never accepts is pushed away. The
    range of `alpha` that helps is narrow.
    """

    paper: ClassVar[str] = "2509.21880"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "S"
    gives_advantages = True

    alpha: Positive = 0.1
    """What an entropy of one nat is worth (0.1 to 0.2)."""
    threshold: Finite = 0.5
    """Reward from which a dead group is right."""
    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-4
    dead: int = field(init=False, default=0)
    """Groups that variance would have left out, so far."""

    def fewest(self) -> int:
        return 2

    def apply(self, group: Group, *, view: View) -> Group:
        rewards = group.raw_rewards_N[group.kept_N]
        if len(rewards) < 2 or np.ptp(rewards) > 1e-6:
            return GroupAdvantage(epsilon=self.epsilon).apply(group, view=view)
        self.dead += 1
        right = bool(rewards.max() >= self.threshold)  # rounded as rewards are
        advantage = self.alpha if right else -self.alpha
        return group.with_advantages([advantage if kept else None for kept in group.kept_N])

    def metrics(self) -> Mapping[str, float]:
        """Dead groups that were given an advantage so far."""
        return {"dead": float(self.dead)}
