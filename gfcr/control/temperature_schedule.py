"""Samples at a temperature that follows a schedule over updates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from gfcr.stages import Allocator, Control, Job, View
from gfcr.values.ranges import Count, Heat


@final
@dataclass(kw_only=True)
class TemperatureSchedule(Control, Allocator):
    """Moves the sampling temperature from `start` to `end` x the run's over `updates` updates.

    T = sampling.temperature (start + (end - start) min(update / updates, 1)): explore first,
    sharpen later, or hold diversity up as entropy falls.

    The policy that is trained stays the one at the run's temperature, and the sampled log-probs are
    those at T: what is sampled is off the policy from the first update on, and weighed for it by
    the strategy's `correction` (such as `truncated`), which it needs.

    Hurts far from the run's temperature: ratios per token leave the correction's bound, and a
    truncated weight is a biased one.
    """

    cell: ClassVar[str] = "C6.4"
    origin: ClassVar[str] = "ours"
    heats: ClassVar[bool] = True

    start: Heat = 1.2
    end: Heat = 1.0
    updates: Count = 100
    """Updates until the temperature is that of `end`."""
    temperature: float = field(init=False, default=0.0)
    """Of the last batch."""

    def scale(self, update: int) -> float:
        """Returns what the run's temperature is multiplied by at an update."""
        return self.start + (self.end - self.start) * min(update / self.updates, 1.0)

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        self.temperature = view.sampling.temperature * self.scale(view.step)
        return [self._heated(job) for job in jobs]

    def metrics(self) -> Mapping[str, float]:
        """The temperature of the last batch."""
        return {"temperature": self.temperature}

    def _heated(self, job: Job) -> Job:
        return replace(job, sampling=replace(job.sampling, temperature=self.temperature))
