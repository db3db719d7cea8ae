"""Preferences within a group: the best rollout and the worst, for `loss.estimator: dpo`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.part import Recipe
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class PreferencePairs(Filter):
    """Advantage 1 to a rollout of the best reward, -1 to one of the worst; the rest is `neither`.

    A pair a group, ties broken at random. Groups whose best and worst are no more than `margin`
    apart say nothing and are rejected as `no_preference`.

    Hurts when most groups are dead: they are generated and teach nothing. Advantages are marks,
    not sizes: use it with `loss: {estimator: dpo}`.
    """

    paper: ClassVar[str] = "2305.18290"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "ours"
    gives_advantages = True

    margin: NonNegative = 0.0
    """Least difference of reward of a pair, itself not enough."""
    pairs: int = field(init=False, default=0)

    def fewest(self) -> int:
        return 2

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if strategy.estimator == "dpo":
            return None
        return (
            f"its advantages are marks of pairs, and loss.estimator={strategy.estimator!r} "
            "would take them for sizes: give `loss: {estimator: dpo}`."
        )

    def apply(self, group: Group, *, view: View) -> Group:
        # The pool is shuffled, as `argmax` takes the first of equal rewards.
        shuffled = view.rng("preference_pairs", group.id).permutation(len(group.rollouts))
        pool = shuffled[group.kept_N[shuffled]]
        rewards = group.rewards_N[pool]
        # With a margin of 0, float noise of equal rewards must not make a preference.
        if np.ptp(rewards) <= max(self.margin, 1e-6):
            return group.reject("no_preference")
        best, worst = int(pool[rewards.argmax()]), int(pool[rewards.argmin()])
        self.pairs += 1
        marks = {best: 1.0, worst: -1.0}
        others = [int(i) for i in pool if i not in marks]
        marked = group.with_advantages([marks.get(i) for i in range(len(group.rollouts))])
        return marked.reject_rollouts(others, reason="neither")

    def metrics(self) -> Mapping[str, float]:
        """Pairs made so far."""
        return {"pairs": float(self.pairs)}
