"""RLEP: right rollouts of an earlier run, or of this one, join each group."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from gfcr.replay._successes import Solved
from gfcr.stages import Harvest, View
from gfcr.types import Group, Rollout
from gfcr.values.ranges import Count, File


@final
@dataclass(kw_only=True)
class Rlep(Solved):
    """Adds `num` right rollouts, drawn at random from a pool, to each group whose prompt has some.

    The pool is what the run in the folder `pool` solved, read once; without a folder it is what
    this run solved before. Recalled rollouts keep the log-probs they were sampled with. A group is
    then compared as a whole, the recalled ones included.

    Hurts where the group would have been all right: the recalled ones say nothing new, and
    successes of a policy far away are imitated rather than found.
    """

    paper: ClassVar[str] = "2507.07451"
    cell: ClassVar[str] = "R7.2"
    origin: ClassVar[str] = "P"

    num: Count = 2
    pool: File = ""
    """Folder of a run, as `gfcr rollouts` reads it; empty for this run's own."""
    read: bool = field(init=False, default=False)

    def recall(self, group: Group, *, view: View) -> Sequence[Rollout]:
        # What was read is in the checkpoints, so that a resumed run needs no folder.
        if self.pool and not self.read:
            self.keep(view.recorded(self.pool))
            self.read = True
        return self.hand_on(self.drawn(group.prompt.id, num=self.num, view=view))

    def store(self, harvest: Harvest, *, view: View) -> None:
        """See `Replay.store`; a pool that was given stays as it is."""
        super().store(replace(harvest, groups=()) if self.pool else harvest, view=view)
