"""S-GRPO's rewards: the earlier a thought could be left, the better."""

from collections import Counter
from dataclasses import dataclass
from math import inf
from typing import ClassVar, final

from gfcr.filter._shaping import too_late
from gfcr.part import Recipe
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Finite, SomeShare


@final
@dataclass(kw_only=True)
class ExitReward(Filter):
    """Pays decay^(k - 1) to the k-th right answer of a serial group, and nothing to wrong ones.

    Rollouts are in the order in which they left the thought (their note `exit`, by `serial_exits`;
    one without comes last), and right from the reward `threshold` on. Those that a gate before has
    rejected are not counted. S-GRPO halves: 1, 1/2, 1/4...

    Hurts hard prompts, whose few right answers come late and are paid in full, while an early
    guess that happens to be right is taught as well.
    """

    paper: ClassVar[str] = "2505.07686"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "S"
    gives_advantages = False

    decay: SomeShare = 0.5
    threshold: Finite = 0.5

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return too_late(strategy, at=at)

    def apply(self, group: Group, *, view: View) -> Group:
        exits_N = [r.notes.get("exit", inf) for r in group.rollouts]
        rewards = [s.reward for s in group.signals]
        # One that was recalled has left another group's thought, and counts among its own.
        num_right = Counter[str]()
        for i in sorted(range(len(exits_N)), key=lambda i: exits_N[i]):
            reward = rewards[i]
            if reward is not None and group.signals[i].rejected is None:
                right = reward >= self.threshold
                rewards[i] = self.decay ** num_right[group.rollouts[i].group_id] if right else 0.0
                num_right[group.rollouts[i].group_id] += right
        return group.with_rewards(rewards).with_values(right_exits=float(num_right.total()))
