"""D3S: the rollouts of a group whose advantages vary most, few at first."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.handles.subsets import max_variance
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class D3s(Filter):
    """Keeps the rollouts whose advantages vary most; the others are rejected as `d3s`.

    `first` are kept in the first update and `last` from update `updates` on, in equal steps in
    between. Behind the advantage map the advantages stay those of the whole group; before it (or
    where there is none) rewards are looked at, which orders them alike. The correction of the same
    name then chooses the tokens.

    Hurts where rollouts, not updates, are the cost, and late: what is kept of an easy group is as
    many wrong as right ones.
    """

    paper: ClassVar[str] = "2509.22115"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    first: Annotated[int, Interval(ge=2, le=100000)] = 4
    last: Annotated[int, Interval(ge=2, le=100000)] = 8
    updates: Count = 100

    def fewest(self) -> int:
        return max(self.first, self.last)

    def num(self, step: int) -> int:
        """Rollouts kept of a group in an update."""
        return round(self.first + (self.last - self.first) * min(step / self.updates, 1))

    def apply(self, group: Group, *, view: View) -> Group:
        kept = np.flatnonzero(group.kept_N)
        chosen = kept[max_variance(_values(group)[kept], num=self.num(view.step))]
        others = np.setdiff1d(kept, chosen).tolist()
        return group.reject_rollouts(others, reason="d3s").with_values(d3s_kept=len(chosen))


def _values(group: Group) -> np.ndarray:
    advantages = [s.advantage for s in group.signals]
    if all(a is None for a in advantages):
        return group.rewards_N
    return np.array([np.mean(0.0 if a is None else a) for a in advantages], np.float32)
