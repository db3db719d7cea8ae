"""Reward by correctness and length along a cosine."""

from dataclasses import dataclass
from math import cos, pi
from typing import ClassVar, final

from gfcr.filter._shaping import too_late
from gfcr.part import Recipe
from gfcr.stages import Filter, View
from gfcr.types import FinishReason, Group
from gfcr.values.ranges import Finite


@final
@dataclass(kw_only=True)
class CosineLength(Filter):
    """Pays right answers more the shorter they are, wrong ones the longer they are.

    With n tokens under a cap of L the reward becomes
        b + (a - b) (1 + cos(pi n / L)) / 2,
    with a = `right_short`, b = `right_long` for a reward from `threshold` on, else `wrong_short`
    and `wrong_long`; and `cut` for a rollout that met its cap. a is paid at 0 tokens, b at the cap
    of the run. Put the advantage map after it.

    The paper lets length grow in a controlled way: wrong answers are pushed to think longer. Hurts
    where policies learn to fill up a wrong answer; the paper adds a penalty on repeated n-grams for
    it (here `repetition_stop` ends such a rollout).
    """

    paper: ClassVar[str] = "2502.03373"
    cell: ClassVar[str] = "C6.4"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    right_short: Finite = 2.0
    right_long: Finite = 1.0
    wrong_short: Finite = -10.0
    wrong_long: Finite = 0.0
    cut: Finite = -10.0
    """Reward of a rollout that met its cap, right or wrong."""
    threshold: Finite = 0.5

    def reward(self, *, right: bool, length: int, cap: int) -> float:
        """Reward of a rollout of so many tokens that ended by itself."""
        a, b = (self.right_short, self.right_long) if right else (self.wrong_short, self.wrong_long)
        return b + (a - b) * (1 + cos(pi * min(length / cap, 1.0))) / 2

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return too_late(strategy, at=at)

    def apply(self, group: Group, *, view: View) -> Group:
        cap = view.sampling.max_tokens
        shaped: list[float | None] = []
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            if signal.reward is None:
                shaped.append(None)
            elif rollout.finish == FinishReason.LENGTH:
                shaped.append(self.cut)
            else:
                right = signal.reward >= self.threshold
                shaped.append(self.reward(right=right, length=len(rollout), cap=cap))
        return group.with_rewards(shaped)
