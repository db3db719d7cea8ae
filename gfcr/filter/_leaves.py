"""What filters of rollout trees share: the leaves below each segment, read off the spans."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

import numpy as np

from gfcr.types import Bools, Floats, Group, Ints, Rollout, Span

Segment: TypeAlias = tuple[str, int]
"""The request and the number of its first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A rollout as the J segments of its tree that lead to it, from the root on.

    A segment is a run of sampled tokens between forks; its leaves are the kept rollouts it is part
    of.
    """

    names_J: tuple[Segment, ...]
    value_J: Floats
    """Mean reward of each segment's leaves."""
    leaves_J: Ints
    segment_S: Ints
    """Of each sampled token, the number of its segment."""

    def spread(self, per_segment_J: np.ndarray, *, mask_T: Bools) -> Floats:
        """One number a token, that of its segment; 0 on environment tokens."""
        spread_T = np.zeros(len(mask_T), np.float32)
        spread_T[mask_T] = per_segment_J[self.segment_S]
        return spread_T


class Leaves:
    """For every generated token of a group: its kept leaves, and the sum of their rewards."""

    def __init__(self, group: Group) -> None:
        """Counts the kept rollouts of a group."""
        kept_N, rewards_N = group.kept_N, group.rewards_N
        self._rewards_N = rewards_N
        lengths: dict[str, int] = {}
        for span in (s for r in group.rollouts for s in _spans(r)):
            lengths[span.request_id] = max(lengths.get(span.request_id, 0), span.stop)
        self._count = {request: np.zeros(num, np.float32) for request, num in lengths.items()}
        self._sum = {request: np.zeros(num, np.float32) for request, num in lengths.items()}
        for rollout, kept, reward in zip(group.rollouts, kept_N, rewards_N, strict=True):
            for span in _spans(rollout) if kept else ():
                self._count[span.request_id][span.start : span.stop] += 1
                self._sum[span.request_id][span.start : span.stop] += reward
        self.root = float(rewards_N[kept_N].mean()) if kept_N.any() else 0.0
        """Mean reward of all of them."""
        self.num = int(kept_N.sum())
        pairs = zip(group.rollouts, kept_N, strict=True)
        self.paths = tuple(self._path(r) if kept else None for r, kept in pairs)
        """Of each rollout; None for one that is not kept."""

    @property
    def shared(self) -> float:
        """Share of the leaves' tokens that did not have to be generated again."""
        counts = [c[c > 0] for c in self._count.values()]
        total = sum(float(c.sum()) for c in counts)
        return 1 - sum(len(c) for c in counts) / total if total else 0.0

    def children(self) -> Mapping[Segment | None, Mapping[Segment, float]]:
        """The values of the segments behind each segment, None being the root.

        A segment's value is the mean of the values of those behind it, however many leaves each
        has. A rollout that ends with the segment counts as one of them, with its reward.
        """
        parents: dict[Segment, Segment | None] = {}
        behind: dict[Segment | None, list[float]] = defaultdict(list)
        for path, reward in zip(self.paths, self._rewards_N, strict=True):
            if path is not None and path.names_J:
                parents.update(zip(path.names_J, (None, *path.names_J[:-1]), strict=True))
                behind[path.names_J[-1]].append(float(reward))
        found: dict[Segment | None, dict[Segment, float]] = defaultdict(dict)
        # A segment is entered behind its parent, so that in reverse its value is known first.
        for name, parent in reversed(parents.items()):
            found[parent][name] = fmean(behind[name])
            behind[parent].append(found[parent][name])
        return found

    def _path(self, rollout: Rollout) -> Path:
        count_S, sum_S = _along(rollout, self._count), _along(rollout, self._sum)
        # Down a path the leaves below only get fewer: a segment starts where their number changes.
        starts_J = np.flatnonzero(np.diff(count_S, prepend=np.inf))
        tokens = [(s.request_id, at) for s in _spans(rollout) for at in range(s.start, s.stop)]
        numbers_S = np.arange(len(count_S))
        return Path(
            names_J=tuple(tokens[int(start)] for start in [*starts_J]),
            value_J=(sum_S / count_S)[starts_J],
            leaves_J=count_S[starts_J].astype(np.int32),
            segment_S=(np.searchsorted(starts_J, numbers_S, side="right") - 1).astype(np.int32),
        )


def _along(rollout: Rollout, per_request: Mapping[str, Floats]) -> Floats:
    return np.concatenate([per_request[s.request_id][s.start : s.stop] for s in _spans(rollout)])


def _spans(rollout: Rollout) -> tuple[Span, ...]:
    """Where its sampled tokens lie; one of another run, which has no spans, is one by itself."""
    own = Span(request_id=rollout.id, start=0, stop=int(rollout.mask_T.sum()))
    return rollout.spans or (own,)
