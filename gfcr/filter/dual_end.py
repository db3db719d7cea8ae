"""Trains on the shortest and the longest rollouts of a group."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.stages import Filter, View
from gfcr.types import Group
from gfcr.values.ranges import Natural


@final
@dataclass(kw_only=True)
class DualEnd(Filter):
    """Keeps the `shortest` and the `longest` rollouts of a group; others are rejected, `dual_end`.

    All are kept where there are no more than that; of equal lengths the first one comes first. Put
    the advantage map after it. With `darts`, which aborts the longest of all, the long end that is
    kept is what remains of it.

    Hurts where length goes with being right: the kept ones' success rate is not the prompt's.
    """

    paper: ClassVar[str] = "2605.30859"
    cell: ClassVar[str] = "C6.5"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    shortest: Natural = 4
    longest: Natural = 4

    def __post_init__(self) -> None:
        if not self.shortest + self.longest:
            raise ConfigError(
                "dual_end.shortest=0 with dual_end.longest=0 keeps no rollout: raise one of them."
            )

    def fewest(self) -> int:
        return self.shortest + self.longest

    def apply(self, group: Group, *, view: View) -> Group:
        kept = np.flatnonzero(group.kept_N)
        lengths_N = np.array([len(rollout) for rollout in group.rollouts])
        ranked = kept[np.argsort(lengths_N[kept], kind="stable")]
        middle = ranked[self.shortest : max(self.shortest, len(ranked) - self.longest)]
        return group.reject_rollouts(middle.tolist(), reason="dual_end")
