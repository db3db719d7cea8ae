"""RFT, rejection-sampling fine-tuning: the right answers, each text once, by SFT (2308.01825)."""

from dataclasses import dataclass, field
from typing import final

from gfcr.generate.sample import Sample
from gfcr.stages import Filter, View
from gfcr.strategy import Strategy
from gfcr.types import Group, Loss
from gfcr.values.ranges import SomeShare


@final
@dataclass(kw_only=True)
class RightOnce(Filter):
    """Keeps rollouts of a reward of at least `least`, the first of each text."""

    gives_advantages = True
    least: SomeShare = 1.0
    kept: int = field(init=False, default=0)

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        seen, dropped = set[str](), list[int]()
        pairs = zip(group.rollouts, group.rewards_N, strict=True)
        for index, (rollout, reward) in enumerate(pairs):
            right = reward >= self.least and rollout.text not in seen
            dropped += [] if right else [index]
            seen |= {rollout.text} if right else set()
        self.kept += len(group.rollouts) - len(dropped)
        chosen = group.with_advantages([1.0] * len(group.rollouts))
        return chosen.reject_rollouts(dropped, reason="not_right")

    def metrics(self) -> dict[str, float]:
        """Rollouts kept so far."""
        return {"kept": float(self.kept)}


def rft(*, group_size: int = 4, least: float = 1.0) -> Strategy:
    """Rejection-sampling fine-tuning."""
    return Strategy(
        name="rft",
        generate=Sample(),
        filters={"right": RightOnce(least=least)},
        loss=Loss(estimator="sft"),
        group_size=group_size,
    )
