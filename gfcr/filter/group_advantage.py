"""Group-relative advantages: GRPO, Dr. GRPO, RLOO and MaxRL."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.stages import Filter, View
from gfcr.types import Floats, Group


@final
@dataclass(kw_only=True)
class GroupAdvantage(Filter):
    """Compares each rollout's reward with its group's: GRPO, Dr. GRPO, RLOO and MaxRL.

    With rewards r of the K kept rollouts, mean m and standard deviation s (ddof=1):
        grpo     A_i = (r_i - m) / (s + epsilon)               (2402.03300)
        dr_grpo  A_i = r_i - m                                 (2503.20783)
        rloo     A_i = r_i - mean of the others = K/(K-1) (r_i - m)   (2402.14740)
        maxrl    A_i = (r_i - m) / max(m, max r / K), and 0 where m <= 0   (2602.02710)

    With rewards of 0 and 1, and p the prompt's rate of right answers, maxrl follows in expectation
    the gradient of the first K - 1 terms of log p = -sum_k (1 - p)^k / k, dr_grpo that of (K - 1)/K
    p: a right answer counts for more the rarer it is. Where no reward is below 0 its divisor is m;
    penalties can bring m as near to 0 as rounding allows, but not the share max r / K.

    Hurts when all rewards of a group are equal: every advantage is 0 and the tokens teach nothing.
    A group of one has no baseline: rloo gives the reward itself, the others 0.
    """

    paper: ClassVar[str] = "2402.03300"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "P"
    gives_advantages = True

    kind: Literal["grpo", "dr_grpo", "rloo", "maxrl"] = "grpo"
    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-4

    def fewest(self) -> int:
        return 1 if self.kind == "rloo" else 2

    def apply(self, group: Group, *, view: View) -> Group:
        kept = group.kept_N
        advantages = self.compared(group.rewards_N[kept])
        filled = np.zeros(len(kept), np.float32)
        filled[kept] = advantages
        return group.with_advantages(
            [float(a) if k else None for a, k in zip(filled, kept, strict=True)]
        )

    def compared(self, rewards_N: Floats) -> Floats:
        """Returns the advantages of K rollouts with these rewards, shape (K,)."""
        centred = rewards_N - rewards_N.mean()
        num = len(rewards_N)
        if num > 1 and np.ptp(rewards_N) == 0:
            # Six rewards of 0.3 are not their mean to the last bit, which epsilon would enlarge.
            return np.zeros_like(rewards_N)
        if self.kind == "rloo":
            return centred * num / (num - 1) if num > 1 else rewards_N
        if self.kind == "dr_grpo" or num == 1:
            return centred
        if self.kind == "maxrl":
            mean = rewards_N.mean()
            # Penalties can make the mean as good as nothing, which is no measure of a rollout.
            least = max(mean, rewards_N.max() / num)
            return centred / least if mean > 0 else np.zeros_like(centred)
        # It is TRL's formula, ddof=1 and 1e-4 included, so that updates compare with its own.
        return centred / (rewards_N.std(ddof=1) + np.float32(self.epsilon))
