"""Advantages per segment, by the values of the states between segments."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.stages import Filter, View
from gfcr.types import Floats, Group, Rollout, Signal
from gfcr.values.ranges import SomeShare, Word


@final
@dataclass(kw_only=True)
class SegmentAdvantage(Filter):
    """A of a segment = V(where it ends) - V(where it begins); the last one ends in the reward.

    Reads two scores per token, given by an Evaluator: `value`, V at the begin of the segment that
    the token is in, and `segment`, the number of that segment. Without the second every change of
    the value begins a segment. A rollout without values is one segment whose V is the mean reward
    of the group (Dr. GRPO's baseline). A rollout's advantages sum over segments to r - V(begin).

    With `unlikely` < 1 only tokens sampled with at most that probability are taught (SPO-chain):
    they are where the segment was decided. Segments a rollout, 1 where nobody gave values, are
    measured as `group/segments`. Hurts when values are noisy: a step's advantage is the difference
    of two estimates.
    """

    paper: ClassVar[str] = "2505.23564"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "ours"
    gives_advantages = True
    tokenwise = True

    value: Word = "value"
    """Name of the score with the values."""
    segment: Word = "segment"
    """Name of the score with the numbers of segments."""
    unlikely: SomeShare = 1.0
    """Largest probability of a token that is taught."""

    def apply(self, group: Group, *, view: View) -> Group:
        base = float(group.rewards_N[group.kept_N].mean())
        triples = zip(group.rollouts, group.signals, group.kept_N, strict=True)
        found = [self._advantage_T(r, s, base=base) if k else None for r, s, k in triples]
        made = group.with_advantages(found)
        counts = [
            len(self._begins(r, s)) for r, s in zip(group.rollouts, group.signals, strict=True)
        ]
        return made.with_values(segments=float(np.mean(counts)))

    def _advantage_T(self, rollout: Rollout, signal: Signal, *, base: float) -> Floats:
        num, begins = len(rollout), self._begins(rollout, signal)
        value_T = np.broadcast_to(np.float32(signal.scores.get(self.value, base)), (num,))
        values = [*value_T[begins], np.float32(signal.reward or 0.0)]
        advantage_T = np.repeat(np.diff(values), np.diff([*begins, num]))
        # A token of just that probability is taught whatever float32 makes of it.
        taught_T = np.exp(rollout.logprobs_T) <= self.unlikely + 1e-6
        return np.where(taught_T, advantage_T, np.float32(0))

    def _begins(self, rollout: Rollout, signal: Signal) -> list[int]:
        """First tokens of the segments."""
        marks = signal.scores.get(self.segment, signal.scores.get(self.value, 0.0))
        marks_T = np.broadcast_to(np.float32(marks), (len(rollout),))
        return [0][: len(rollout)] + [int(i) + 1 for i in np.flatnonzero(np.diff(marks_T))]
