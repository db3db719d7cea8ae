"""Planted strategies: two that learn nothing, one that wastes half of its tokens."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Filter, View
from gfcr.strategy import Strategy
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class NoAdvantage(Filter):
    """Gives every rollout the advantage 0."""

    paper: ClassVar[str] = ""
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "ours"
    gives_advantages = True

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        return group.with_advantages([0.0 if kept else None for kept in group.kept_N])


@final
@dataclass(kw_only=True)
class CoinReward(Filter):
    """Replaces each reward by the toss of a coin."""

    paper: ClassVar[str] = ""
    cell: ClassVar[str] = "F5.2"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        tosses = view.rng("coin", group.id).integers(0, 2, len(group.rollouts))
        return group.with_rewards([float(toss) for toss in tosses])


@final
@dataclass(kw_only=True)
class SecondHalfThrownAway(Filter):
    """Rejects the second half of a group: the first is what a group of half the size has."""

    paper: ClassVar[str] = ""
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        num = len(group.rollouts)
        return group.reject_rollouts([*range(num // 2, num)], reason="half")


def nothing() -> Strategy:
    """GRPO's rollouts, of which nothing is learned."""
    return Strategy(name="nothing", generate=Sample(), filters={"advantage": NoAdvantage()})


def coin() -> Strategy:
    """GRPO on random rewards."""
    filters = {"coin": CoinReward(), "advantage": GroupAdvantage()}
    return Strategy(name="coin", generate=Sample(), filters=filters)


def wasteful() -> Strategy:
    """GRPO that generates twice what it learns from: the same updates, at twice the tokens."""
    filters = {"half": SecondHalfThrownAway(), "advantage": GroupAdvantage()}
    return Strategy(name="wasteful", generate=Sample(), filters=filters, group_size=16)
