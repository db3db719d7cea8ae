"""Soft overlong punishment."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.filter._shaping import too_late
from gfcr.part import Recipe
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import NonNegative, SomeShare


@final
@dataclass(kw_only=True)
class SoftOverlong(Filter):
    """Takes reward off rollouts whose length nears the cap.

    With cap L and buffer B = `buffer` x L, a rollout of n tokens gets
    -`penalty` x clip((n - (L - B)) / B, 0, 1): nothing up to L - B, the full penalty at the cap
    (DAPO, eq. 13).
    """

    paper: ClassVar[str] = "2503.14476"
    cell: ClassVar[str] = "C6.4"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    buffer: SomeShare = 0.2
    """Share of the cap in which the penalty grows (the paper: 4,096 of 20,480 tokens)."""
    penalty: NonNegative = 1.0

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return too_late(strategy, at=at)

    def apply(self, group: Group, *, view: View) -> Group:
        cap = view.sampling.max_tokens
        shaped: list[float | None] = []
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            excess = (len(rollout) - (1 - self.buffer) * cap) / (self.buffer * cap)
            punishment = self.penalty * min(max(excess, 0.0), 1.0)
            shaped.append(None if signal.reward is None else signal.reward - punishment)
        return group.with_rewards(shaped)
