"""TreeRL's process rewards: each segment of a tree against the root and its parent."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.filter._leaves import Leaves, Path
from gfcr.stages import Filter, View
from gfcr.types import Floats, Group, Rollout


@final
@dataclass(kw_only=True)
class TreeAdvantage(Filter):
    """Gives the tokens of each segment of a rollout tree the segment's own advantage.

    A segment s is a run of tokens between forks. With V(s) the mean reward of the n(s) leaves
    below it, V(root) that of all leaves of the prompt and p(s) the segment before:

        A(s) = ((V(s) - V(root)) + (V(s) - V(p(s)))) / sqrt(n(s))

    Every leaf is a sample of its own, so a trunk token is trained once per leaf below it, each time
    with the same advantage; the root of n(s) is the paper's remedy for that. Which tokens are
    shared is read off the rollouts' spans, so any Generate part that forks will do. Without forks
    it is 2 (r - mean(r)).

    Hurts when all leaves agree (every advantage is 0), and where few leaves make V a noisy guess.
    """

    paper: ClassVar[str] = "2506.11902"
    cell: ClassVar[str] = "F5.4"
    origin: ClassVar[str] = "P"
    gives_advantages = True
    tokenwise = True

    def apply(self, group: Group, *, view: View) -> Group:
        below = Leaves(group)
        advantages = [
            None if path is None else _advantages(path, root=below.root, rollout=rollout)
            for path, rollout in zip(below.paths, group.rollouts, strict=True)
        ]
        values = {"leaves": float(below.num), "shared": below.shared}
        return group.with_advantages(advantages).with_values(**values)


def _advantages(path: Path, *, root: float, rollout: Rollout) -> Floats:
    parents_J = np.array([root, *path.value_J[:-1]], np.float32)[: len(path.value_J)]
    advantage_J = (2 * path.value_J - root - parents_J) / np.sqrt(path.leaves_J)
    return path.spread(advantage_J, mask_T=rollout.mask_T)
