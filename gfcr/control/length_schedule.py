"""Caps rollouts by a schedule over updates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, final

from gfcr.stages import Allocator, Control, Job, View
from gfcr.values.ranges import Count, SomeShare


@final
@dataclass(kw_only=True)
class LengthSchedule(Control, Allocator):
    """Moves the cap of new tokens from `start` to `end` of the run's over `updates` updates.

    With x = min(update / updates, 1) the share is start + (end - start) x, where `step` takes
    floor(x `jumps`) / `jumps` for x: `jumps` + 1 stages. The cap is that share of
    `sampling.max_tokens`, rounded, at least 1. Held-out rollouts keep the run's cap.

    A rising cap is context scaling by stages (FastCuRL: 8k, 16k, 24k); a falling one prunes length
    (ThinkPrune). Parts that read the cap, such as `soft_overlong`, see the run's.

    Hurts where right answers need more than the cap: cut, they are scored as wrong, and what the
    policy unlearns in the early stages it has to learn again.
    """

    paper: ClassVar[str] = "2503.17287"
    cell: ClassVar[str] = "C6.4"
    origin: ClassVar[str] = "ours"

    start: SomeShare = 0.25
    end: SomeShare = 1.0
    updates: Count = 100
    """Updates until the cap is that of `end`."""
    shape: Literal["linear", "step"] = "linear"
    jumps: Count = 2
    """Times that the cap moves; used by `step`."""
    cap: int = field(init=False, default=0)
    """Of the last batch."""

    def share(self, update: int) -> float:
        """Share of the run's cap at an update."""
        done = min(update, self.updates)
        # Integers, so that a jump at an exact share of the updates is not lost to rounding.
        moved = done * self.jumps // self.updates / self.jumps
        progress = moved if self.shape == "step" else done / self.updates
        return self.start + (self.end - self.start) * progress

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        self.cap = max(1, round(self.share(view.step) * view.sampling.max_tokens))
        return [self._capped(job) for job in jobs]

    def metrics(self) -> Mapping[str, float]:
        """The cap of the last batch, in tokens."""
        return {"cap": float(self.cap)}

    def _capped(self, job: Job) -> Job:
        most = min(job.sampling.max_tokens, self.cap)
        return replace(job, sampling=replace(job.sampling, max_tokens=most))
