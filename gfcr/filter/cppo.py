"""CPPO: rollouts of small advantage are pruned before the update."""

from dataclasses import dataclass
from itertools import count
from math import floor
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.stages import Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class Cppo(Filter):
    """Keeps the floor(G (1 - `prune`)) rollouts of largest |A|; the others are rejected as `cppo`.

    G counts the group's kept rollouts. Ties are broken at random: with rewards of 0 and 1 evenly
    split all |A| are equal. Put it behind the advantage map: advantages stay those of the whole
    group, and no longer sum to 0. Before it, |r - mean| orders them alike, and the map behind takes
    the statistics of the kept. Saves updates, not generation; `pack_prompts` fills the room
    with more prompts.

    Hurts where one kind is rare: a few right rollouts have the largest |A| and stay, the wrong ones
    go, and what is left pushes one way.
    """

    paper: ClassVar[str] = "2503.22342"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "P"
    gives_advantages = False

    prune: Annotated[float, Interval(ge=0, lt=1)] = 0.5
    """Share of a group left out (P; the paper: .5 to .9375 of 16)."""

    def fewest(self) -> int:
        """See `Part.fewest`: those of which one is left."""
        return next(num for num in count(1) if _kept(num, prune=self.prune))

    def apply(self, group: Group, *, view: View) -> Group:
        rng = view.rng("cppo", group.id)
        # Of rewards 0 and 1, evenly split, all |A| are equal: the shuffle breaks the ties.
        pool = rng.permutation(np.flatnonzero(group.kept_N))
        sizes = _sizes(group)[pool]
        num = max(_kept(len(pool), prune=self.prune), 1)
        others = pool[np.argsort(-sizes, kind="stable")[num:]]
        return group.reject_rollouts(others.tolist(), reason="cppo")


def _sizes(group: Group) -> np.ndarray:
    """|A| of each rollout, rounded: what is equal is so on whatever side of the mean."""
    advantages = [s.advantage for s in group.signals]
    if all(a is None for a in advantages):
        rewards = group.rewards_N
        return np.abs(rewards - rewards[group.kept_N].mean()).round(6)
    return np.array([np.mean(np.abs(0.0 if a is None else a)) for a in advantages]).round(6)


def _kept(rollouts: int, *, prune: float) -> int:
    # Float noise must not prune one rollout more: 10 * (1 - 0.9) is 0.9999999999999998.
    return floor(rollouts * (1 - prune) + 1e-9)
