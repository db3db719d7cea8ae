"""Stops groups whose rollouts begin alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar, Final, final

import numpy as np

from gfcr.control._rounds import multiplied
from gfcr.part import Recipe
from gfcr.stages import (
    Abort,
    Control,
    Harvest,
    Observer,
    Referee,
    Retire,
    Trajectory,
    View,
    Watcher,
)
from gfcr.types import Group
from gfcr.values.ranges import Count, Share

_NOTE: Final = "prefix_distance"


@final
@dataclass(kw_only=True)
class SelectiveRollout(Control, Watcher, Referee, Observer):
    """Aborts a group whose prefixes at a checkpoint have a mean edit distance below `threshold`.

    Once every rollout of the job has `checkpoint` tokens (or has ended), D is the mean over pairs
    of Levenshtein(a, b) / max(|a|, |b|) of the first `checkpoint` tokens. With D < threshold the
    rest is not sampled, and the group is rejected as `similar_prefixes`: rollouts that begin alike
    end alike, and equal rewards train nothing. Rollouts have D in their notes, `prefix_distance`.

    The paper compares the first 10 actions of agents over several turns; tokens of one turn, and
    so `checkpoint`, are our reading. The batch is trained short, or refilled by `refill`.

    Hurts where one late token decides: groups are given up that had signal. A confident policy has
    D near 0 on most prompts: look at `distance` before setting the threshold.
    """

    paper: ClassVar[str] = "2605.05802"
    cell: ClassVar[str] = "C6.5"
    origin: ClassVar[str] = "ours"

    checkpoint: Count = 64
    """Tokens; looking at a group of n costs n^2 x checkpoint^2 / 2 steps of numpy's."""
    threshold: Share = 0.12
    """The paper's, for actions."""
    stopped: int = field(init=False, default=0)
    """Groups of the last batch."""
    distance: float = field(init=False, default=0.0)
    """Mean D of the groups that were looked at for the last batch."""
    _seen: list[float] = field(init=False, default_factory=list[float])

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if not multiplied(strategy):
            return None
        return (
            "generate makes several rollouts of a sample, which begin alike because they share it. "
            "Use a generate part such as sample."
        )

    def watch(self, trajectory: Trajectory, *, new: int, view: View) -> Abort | None:
        if len(trajectory.tokens) < self.checkpoint:
            return None
        # Branches are alike for the beginning that they share, and go with whom they branched from.
        opened = [t for t in trajectory.siblings if "." not in t.name]
        first = next(t for t in opened if t.name == trajectory.name.partition(".")[0])
        if _NOTE not in first.notes:
            if any(t.finish is None and len(t.tokens) < self.checkpoint for t in opened):
                return None
            self._look(opened)
        trajectory.notes[_NOTE] = first.notes[_NOTE]
        alike = first.notes[_NOTE] < self.threshold
        return Abort(reason="similar prefixes") if alike else None

    def decide(self, group: Group, *, view: View) -> Retire | None:
        alike = [r.notes.get(_NOTE, 1.0) < self.threshold for r in group.rollouts]
        # Of a group that was aborted as a whole nothing is left to tell why.
        return Retire(reason="similar_prefixes") if any(alike) or not alike else None

    def observe(self, harvest: Harvest, *, view: View) -> None:
        seen, self._seen = self._seen, []
        self.stopped = sum(distance < self.threshold for distance in seen)
        self.distance = float(np.mean(seen)) if seen else 0.0

    def metrics(self) -> Mapping[str, float]:
        """Groups stopped in the last batch, and the mean distance of those looked at."""
        return {"stopped": float(self.stopped), "distance": self.distance}

    def _look(self, siblings: Sequence[Trajectory]) -> None:
        prefixes = [t.tokens[: self.checkpoint] for t in siblings]
        pairs = [distance(a, b) for a, b in combinations(prefixes, 2)]
        # A rollout alone is like none.
        mean = float(np.mean(pairs)) if pairs else 1.0
        self._seen.append(mean)
        for each in siblings:
            each.notes[_NOTE] = mean


def distance(a: Sequence[int], b: Sequence[int]) -> float:
    """Levenshtein distance over the longer length; 0 of two empty ones."""
    a, b = (a, b) if len(a) <= len(b) else (b, a)
    if list(a) == list(b):
        return 0.0
    other, places = np.array(b), np.arange(len(b) + 1)
    row = places
    for number, token in enumerate(a, start=1):
        best = np.minimum(row[1:] + 1, row[:-1] + (other != token))
        best = np.concatenate(([number], best))
        # Insertions: the least of best[j] + (i - j) over j <= i.
        row = np.minimum.accumulate(best - places) + places
    return int(row[-1]) / len(b)
