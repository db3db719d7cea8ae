"""TreeRL's process rewards: each segment of a tree against the root and its parent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.stages import Filter, View
from gfcr.types import Bools, Floats, Group, Rollout


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
        """See `Filter.apply`."""
        kept_N, rewards_N = group.kept_N, group.rewards_N
        below = _Leaves(group.rollouts, kept_N=kept_N, rewards_N=rewards_N)
        root = float(rewards_N[kept_N].mean())
        advantages = [
            below.advantages(rollout, root=root) if kept else None
            for rollout, kept in zip(group.rollouts, kept_N, strict=True)
        ]
        return group.with_advantages(advantages).with_values(
            leaves=float(kept_N.sum()), shared=below.shared
        )


class _Leaves:
    """For every generated token, the number of kept leaves below it and their summed reward."""

    def __init__(self, rollouts: Sequence[Rollout], *, kept_N: Bools, rewards_N: Floats) -> None:
        lengths: dict[str, int] = {}
        for span in (s for r in rollouts for s in r.spans):
            lengths[span.request_id] = max(lengths.get(span.request_id, 0), span.stop)
        self._count = {request: np.zeros(num, np.float32) for request, num in lengths.items()}
        self._sum = {request: np.zeros(num, np.float32) for request, num in lengths.items()}
        for rollout, kept, reward in zip(rollouts, kept_N, rewards_N, strict=True):
            for span in rollout.spans if kept else ():
                self._count[span.request_id][span.start : span.stop] += 1
                self._sum[span.request_id][span.start : span.stop] += reward

    @property
    def shared(self) -> float:
        """Share of the leaves' tokens that did not have to be generated again."""
        counts = [c[c > 0] for c in self._count.values()]
        total = sum(float(c.sum()) for c in counts)
        return 1 - sum(len(c) for c in counts) / total if total else 0.0

    def advantages(self, rollout: Rollout, *, root: float) -> Floats:
        """Shape (T,); 0 on environment tokens."""
        count_S = self._along(rollout, of=self._count)
        value_S = self._along(rollout, of=self._sum) / count_S
        # Down a path the leaves below only get fewer: a segment starts where their number changes.
        starts_S = np.flatnonzero(np.diff(count_S, prepend=np.inf))
        segment_S = np.searchsorted(starts_S, np.arange(len(count_S)), side="right") - 1
        parents = np.concatenate([[root], value_S[starts_S]])
        advantage_T = np.zeros(len(rollout), np.float32)
        sampled = (2 * value_S - root - parents[segment_S]) / np.sqrt(count_S)
        advantage_T[rollout.mask_T] = sampled
        return advantage_T

    @staticmethod
    def _along(rollout: Rollout, *, of: Mapping[str, Floats]) -> Floats:
        pieces = [of[s.request_id][s.start : s.stop] for s in rollout.spans]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
