"""Changes the number of rollouts a prompt over the updates of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from gfcr.control._rounds import Resizes
from gfcr.stages import Control, Job, View
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class GroupSchedule(Control, Resizes):
    """Gives every group a number of rollouts that goes linearly from `first` to `last`.

        n(step) = round(first + (last - first) * min(1, step / updates))

    Groups that are resumed stay as they are. Other parts go on reading the strategy's `group_size`:
    put allocators that divide a budget elsewhere, and `equal_prompts` where updates are to weigh
    alike.

    Hurts where groups begin small: few of them have signal while the policy is weakest.
    """

    paper: ClassVar[str] = ""
    cell: ClassVar[str] = "C6.3"
    origin: ClassVar[str] = "ours"

    first: Count = 4
    last: Count = 16
    updates: Count = 100
    """Updates after which groups have their last size."""
    size: int = field(init=False, default=0)

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        gone = min(1.0, view.step / self.updates)
        self.size = round(self.first + (self.last - self.first) * gone)
        return [job if job.resume else replace(job, num_samples=self.size) for job in jobs]

    def metrics(self) -> Mapping[str, float]:
        """Rollouts of the groups last begun."""
        return {"size": float(self.size)}
