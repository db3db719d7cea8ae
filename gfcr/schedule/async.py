"""Generation that never stops, with a bound on the staleness of tokens that are learned from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from gfcr.schedule.base import Schedule, Standing
from gfcr.values.ranges import Natural


@final
@dataclass(kw_only=True)
class Async(Schedule):
    """Makes several batches beside the trainer, and syncs new weights while they are in flight.

    No token is older than `staleness` updates when it is learned from. As in AReaL, admission
    ensures that: the batch of update n is begun once version n - `staleness` is in the engine, and
    continues under every later one. A rollout may then have tokens of several policies.
    With `staleness: 0` it is `sync`, token for token. What a Replay part brings is as old as that
    part allows.

    Give a `correction`, or `loss.off_policy: behaviour`.
    """

    paper: ClassVar[str] = "2505.24298"
    waits: ClassVar[bool] = False
    staleness: Natural = 1
    """Most updates between a token's policy and the one that learns from it (AReaL: 4 to 8)."""
    late: Literal["wait", "ready_first", "drop"] = "wait"
    """What becomes of a batch that is not complete when its turn comes. `wait`: the trainer waits.
    `ready_first`: it learns from another one, as long as that makes none too old. `drop`: it learns
    from another one in any case, and what has become too old is dropped (ledger bin `stale`)."""

    @property
    def oldest(self) -> int:
        return self.staleness

    def loads(self, version: int, *, at: Standing) -> bool:
        return True

    def opens(self, at: Standing) -> bool:
        # The number on the left is that of the update which learns from the batch to begin.
        return at.closed + len(at.opened) <= at.loaded + self.staleness

    def closes(self, at: Standing) -> int | None:
        if self.late == "wait":
            return next((step for step in [*at.opened][:1] if step in at.done), None)
        in_time = (s for s in at.done if self.late == "drop" or self._leaves_time(s, at=at))
        return next(in_time, None)

    def drops(self, at: Standing) -> Sequence[int]:
        return [step for step, of in at.opened.items() if of + self.staleness < at.closed]

    def _leaves_time(self, step: int, *, at: Standing) -> bool:
        """Returns whether all other batches can be learned from in time, with one per update."""
        # They go by their deadlines: if that order misses one, every order does.
        last = sorted(of + self.staleness for other, of in at.opened.items() if other != step)
        return all(by >= at.closed + 1 + n for n, by in enumerate(last))
