"""Group-relative advantages, fresh and replayed rollouts apart."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, final

from annotated_types import Interval

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.stages import Filter, View
from gfcr.types import Group, Signal
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class SplitAdvantage(Filter):
    """Compares fresh rollouts with fresh ones, replayed ones with replayed ones.

    A_i = (r_i - mean(r_S)) / (std(r_S) + epsilon) with S the fresh or the replayed rollouts of
    the group (other kinds: see `group_advantage`), so that a cache of successes does not make
    every fresh rollout look bad. Replayed ones get the weight `replay_weight`.

    Hurts with caches of equal rewards (only successes recalled): they teach nothing.
    """

    paper: ClassVar[str] = "2506.09340"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "P"
    gives_advantages = True

    kind: Literal["grpo", "dr_grpo", "rloo"] = "grpo"
    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-4
    replay_weight: NonNegative = 1.0
    """Coefficient of the off-policy part of the loss."""

    def fewest(self) -> int:
        return GroupAdvantage(kind=self.kind).fewest()

    def apply(self, group: Group, *, view: View) -> Group:
        map_ = GroupAdvantage(kind=self.kind, epsilon=self.epsilon)
        signals = list(group.signals)
        for origin, weight in (("fresh", 1.0), ("replay", self.replay_weight)):
            here = [i for i, r in enumerate(group.rollouts) if r.origin == origin]
            part = _part(group, here)
            # A map would take the mean of no reward.
            if not part.kept_N.any():
                continue
            for i, signal in zip(here, map_.apply(part, view=view).signals, strict=True):
                signals[i] = replace(signal, weight=signal.weight * weight)
        return group.with_signals(signals)


def _part(group: Group, which: list[int]) -> Group:
    signals: tuple[Signal, ...] = tuple(group.signals[i] for i in which)
    return replace(group, rollouts=tuple(group.rollouts[i] for i in which), signals=signals)
