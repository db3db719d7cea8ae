"""TreePO's advantages: a rollout against each subtree that it is a leaf of."""

from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from gfcr.filter._leaves import Leaves, Path
from gfcr.stages import Filter, View
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class SubgroupAdvantage(Filter):
    """Compares each leaf of a tree with the leaves of every subtree it belongs to.

    The subgroups of a rollout are all rollouts of its prompt, and the leaves below each fork on its
    path: G_0 > G_1 > ... of two or more. Its advantage is

        mean over j of (r - mean r(G_j))               weigh = average
        sum_j |G_j| (r - mean r(G_j)) / sum_j |G_j|     weigh = size

    Follow it with `whitened`, as the authors' code does. Without forks it is r - mean(r).

    Hurts where subtrees agree: their share of the mean is 0, which shrinks the others'.
    """

    paper: ClassVar[str] = "2508.17445"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "P"
    gives_advantages = True

    weigh: Literal["average", "size"] = "average"

    def apply(self, group: Group, *, view: View) -> Group:
        below = Leaves(group)
        pairs = zip(below.paths, group.rewards_N, strict=True)
        advantages = [
            None if path is None else self._advantage(path, reward=float(reward), below=below)
            for path, reward in pairs
        ]
        return group.with_advantages(advantages).with_values(
            leaves=float(below.num), shared=below.shared, subgroups=_subgroups(below)
        )

    def _advantage(self, path: Path, *, reward: float, below: Leaves) -> float:
        inner = _inner(path, num=below.num)
        means = np.array([below.root, *path.value_J[inner]])
        sizes = np.array([below.num, *path.leaves_J[inner]], np.float64)
        weights = sizes if self.weigh == "size" else np.ones_like(sizes)
        return float(np.average(reward - means, weights=weights))


def _inner(path: Path, *, num: int) -> np.ndarray:
    """The segments below which a part of the leaves lie, and not one alone."""
    # The whole group is counted once, as the first mean, and a leaf alone would be its own mean.
    return (path.leaves_J > 1) & (path.leaves_J < num)


def _subgroups(below: Leaves) -> float:
    """Returns the subgroups of a rollout, the whole group included."""
    found = [1.0 + _inner(p, num=below.num).sum() for p in below.paths if p is not None]
    return float(np.mean(found)) if found else 0.0
