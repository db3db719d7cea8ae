"""MaxRL (arXiv 2602.02710): advantages over the mean, so that rare right answers count for more."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.generate.sample import Sample
from gfcr.stages import Filter, View
from gfcr.strategy import Strategy
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class OverMean(Filter):
    """A = (r - mean) / mean over the kept rollouts of a group; 0 where the mean is not positive."""

    paper: ClassVar[str] = "2602.02710"
    gives_advantages = True

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        kept, rewards_N = group.kept_N, group.rewards_N.astype(float)
        mean = rewards_N[kept].mean() if kept.any() else 0.0
        advantages_N = (rewards_N - mean) / mean if mean > 0 else 0 * rewards_N
        pairs = zip(advantages_N, kept, strict=True)
        return group.with_advantages([float(a) if k else None for a, k in pairs])


def maxrl(*, group_size: int = 8) -> Strategy:
    """Maximum-likelihood RL: the fewer of a group are right, the more each of them counts."""
    return Strategy(
        name="maxrl",
        generate=Sample(),
        filters={"advantage": OverMean()},
        group_size=group_size,
    )
