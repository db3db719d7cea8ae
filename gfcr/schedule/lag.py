"""Batches that are made a fixed number of updates ahead, each by one policy."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.schedule.base import Schedule, Standing
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Lag(Schedule):
    """One step off: the batch of update n is made by policy version n - `updates`.

    While the trainer learns from one batch, the engine makes the next one. Which policy makes a
    batch does not depend on how long anything takes: the same seed gives the same run. All tokens
    of a batch are of one policy, the first batches' of the policy that the run began with.

    Give a `correction`, or `loss.off_policy: behaviour`: every token is off the policy by
    `updates` updates.
    """

    paper: ClassVar[str] = "2410.18252"
    updates: Count = 1
    """Number of updates by which the policy that makes a batch is behind."""

    @property
    def oldest(self) -> int:
        return self.updates

    def loads(self, version: int, *, at: Standing) -> bool:
        return not at.opened and version <= self._maker(at)

    def opens(self, at: Standing) -> bool:
        return not at.opened and at.loaded == self._maker(at)

    def _maker(self, at: Standing) -> int:
        return max(at.first, at.closed - self.updates)
