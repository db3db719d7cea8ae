"""F-GRPO (arXiv 2602.06717): the more of a group is right, the less its update counts."""

from dataclasses import dataclass, replace
from typing import ClassVar, final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Filter, View
from gfcr.strategy import Strategy
from gfcr.types import Group
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class Focal(Filter):
    """Weighs a group by (1 - p)^power, with p its share of right answers."""

    paper: ClassVar[str] = "2602.06717"
    gives_advantages = False

    power: NonNegative = 1.0

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        right = group.raw_rewards_N[group.kept_N] > 0
        weight = (1 - float(right.mean())) ** self.power if len(right) else 1.0
        signals = [replace(s, weight=s.weight * weight) for s in group.signals]
        return group.with_signals(signals).with_values(focal=weight)


def fgrpo(*, group_size: int = 8, power: float = 1.0) -> Strategy:
    """GRPO with a focal weight, so that rare right answers are not forgotten."""
    return Strategy(
        name="fgrpo",
        generate=Sample(),
        filters={"focal": Focal(power=power), "advantage": GroupAdvantage()},
        group_size=group_size,
    )
