"""Samples each prompt in rounds until its rollouts carry signal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.control._rounds import forget, uncounted
from gfcr.part import Recipe
from gfcr.stages import Control, Harvest, Observer, Referee, SampleMore, View
from gfcr.types import Group
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class ReinforceAda(Control, Referee, Observer):
    """Adds rounds of `group_size` rollouts to a prompt until it may leave, `max_rounds` at most.

    A rollout is right from reward `threshold` on. A prompt leaves
        balance    with `keep`/2 right and `keep`/2 wrong rollouts,
        positive   with `positives` right ones.
    Follow it with the `balanced_subset` filter behind the advantage map: n of the pool are
    trained with the mean and deviation of the whole pool.

    Hurts on prompts out of reach: they cost `max_rounds` times the tokens and stay dead.
    """

    paper: ClassVar[str] = "2510.04996"
    cell: ClassVar[str] = "C6.3"
    origin: ClassVar[str] = "P"

    mode: Literal["balance", "positive"] = "balance"
    keep: Annotated[int, Interval(ge=2, le=100000)] = 8
    """Rollouts trained on a prompt (n); used by `balance`."""
    positives: Count = 1
    """Right rollouts that are enough; used by `positive`."""
    max_rounds: Count = 4
    threshold: Annotated[float, Interval(ge=-1000000.0, le=1000000.0)] = 0.7
    rounds: dict[str, int] = field(init=False, default_factory=dict[str, int])
    """Rounds spent on each group in the making."""
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return uncounted(strategy)

    def decide(self, group: Group, *, view: View) -> SampleMore | None:
        if {r.origin for r in group.rollouts} == {"replay"}:  # a whole group of an earlier update
            return None
        # Resumed groups come with earlier rounds; cut rollouts leave groups shorter than drawn.
        in_pool = len(group.rollouts) // view.group_size
        self.rounds[group.id] = max(self.rounds.get(group.id, 0) + 1, in_pool)
        if self._may_leave(group) or self.rounds[group.id] >= self.max_rounds:
            return None
        return SampleMore(num_samples=view.group_size)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        done = [g for g in harvest.groups if g.id in self.rounds]
        told = {
            "rounds": [self.rounds[g.id] for g in done],
            "satisfied": [self._may_leave(g) for g in done],
        }
        self.last = {name: float(np.mean(values)) for name, values in told.items() if values}
        forget(self.rounds, harvest)

    def metrics(self) -> Mapping[str, float]:
        """Mean rounds a prompt took, and the share of prompts that left by the rule."""
        return self.last

    def _may_leave(self, group: Group) -> bool:
        fresh = [r for r in group.rollouts if r.origin == "fresh"]
        rewards = [r.reward for r in fresh if r.reward is not None]
        right = sum(reward >= self.threshold for reward in rewards)
        if self.mode == "positive":
            return right >= self.positives
        # Unscorable rollouts are neither, or a broken verifier would fill the wrong half.
        wrong = len(rewards) - right
        return right >= self.keep // 2 and wrong >= self.keep - self.keep // 2
