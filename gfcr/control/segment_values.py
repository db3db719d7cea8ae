"""SPO-chain's values: rollouts are cut where they were decided, and continued from there."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.control._values import PrefixValues, thinned
from gfcr.stages import View
from gfcr.types import Rollout
from gfcr.values.ranges import Count, SomeShare


@final
@dataclass(kw_only=True)
class SegmentValues(PrefixValues):
    """Monte-Carlo values of segments that hold `interval` unlikely tokens each.

    A token is unlikely that was sampled with a probability below `unlikely`; every `interval`-th
    one of a rollout, from the first on, begins a segment. V(segment) is the mean reward of
    `samples` continuations from its first token. Gives the scores `value` (V at the begin of the
    token's segment) and `segment` (its number): the `segment_advantage` filter makes advantages of
    them.

    Continuations are asides: billed, kept with the records, never trained on. One that cannot be
    scored counts in no mean; where none can, the value is that of the segment before.

    Hurts by its price: a rollout costs about `samples` * segments / 2 rollouts more.
    """

    paper: ClassVar[str] = "2505.23564"
    cell: ClassVar[str] = "F5.4"
    origin: ClassVar[str] = "P"
    gives_scores = ("value", "segment")

    unlikely: SomeShare = 0.9
    interval: Count = 5
    """Unlikely tokens a segment."""
    most_segments: Count = 32
    """Ours: bounds the price."""

    def cuts(self, rollout: Rollout, view: View) -> list[int]:
        decided_T = rollout.mask_T & (np.exp(rollout.logprobs_T) < self.unlikely)
        # A cut at the first token would make an empty segment before it.
        places = [int(at) for at in np.flatnonzero(decided_T)[:: self.interval] if at > 0]
        return thinned(places, self.most_segments - 1)
