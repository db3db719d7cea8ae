"""SPO-tree's advantages: each segment of a tree against its siblings."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.filter._leaves import Leaves, Path, Segment
from gfcr.stages import Filter, View
from gfcr.types import Floats, Group, Rollout
from gfcr.values.ranges import NonNegative, SomeShare


@final
@dataclass(kw_only=True)
class SiblingAdvantage(Filter):
    """Gives each segment of a rollout tree its value less the mean value of its siblings.

    A segment s is a run of tokens between forks. V(s) is the reward where a rollout ends with s,
    and else the mean of V over the segments behind it, however many leaves each of them has. Its
    siblings are the segments that begin where it does, itself included:

        A(s) = (V(s) - mean V(siblings)) / (std V(siblings) + epsilon)

    or without the division where `normalise` is off. Only tokens sampled with at most the
    probability `unlikely` are taught: they are where the segment was decided. A segment without
    siblings has the advantage 0.

    Hurts where segments are short: few tokens differ, and V is a mean of few leaves.
    """

    paper: ClassVar[str] = "2505.23564"
    cell: ClassVar[str] = "F5.4"
    origin: ClassVar[str] = "P"
    gives_advantages = True
    tokenwise = True

    normalise: bool = True
    epsilon: NonNegative = 1e-8
    unlikely: SomeShare = 0.9
    """Largest probability of a token that is taught."""

    def apply(self, group: Group, *, view: View) -> Group:
        below = Leaves(group)
        of = {
            name: self._one(value, among=np.array([*values.values()]))
            for values in below.children().values()
            for name, value in values.items()
        }
        pairs = zip(below.paths, group.rollouts, strict=True)
        advantages = [None if p is None else self._spread(p, of=of, rollout=r) for p, r in pairs]
        values = {"leaves": float(below.num), "shared": below.shared}
        return group.with_advantages(advantages).with_values(**values)

    def _one(self, value: float, *, among: np.ndarray) -> float:
        if np.ptp(among) <= 1e-6:  # means of equal rewards such as 0.1 differ by float noise
            return 0.0
        scale = float(among.std()) + self.epsilon if self.normalise else 1.0
        return float(value - among.mean()) / scale

    def _spread(self, path: Path, *, of: dict[Segment, float], rollout: Rollout) -> Floats:
        advantage_J = np.array([of[name] for name in path.names_J], np.float32)
        advantage_T = path.spread(advantage_J, mask_T=rollout.mask_T)
        # A token of just that probability is taught whatever float32 makes of it.
        taught_T = np.exp(rollout.logprobs_T) <= self.unlikely + 1e-6
        return np.where(taught_T, advantage_T, np.float32(0))
