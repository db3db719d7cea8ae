"""What a part does beside a group's rollouts: it asks on the side and calls slow functions."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from gfcr.errors import PartError, shown
from gfcr.loop.coroutine import Pending, Run, gather
from gfcr.loop.floor import Origin
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.stages import View
from gfcr.tasks.base import Verdict
from gfcr.types import Prompt, Sampling

T = TypeVar("T")

_ROLE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


class SideSession:
    """See `stages.Scratch`."""

    def __init__(self, origin: Origin, *, view: View, name: str) -> None:
        """Opens a session.

        Args:
            origin: the group.
            view: what the part sees of the run.
            name: tells the asides from those of the group's other sessions.
        """
        self.view, self._origin, self._floor, self._name = view, origin, origin.floor, name
        self.trajectories: list[LiveTrajectory] = []
        self.asides: list[LiveTrajectory] = []
        self._branches: list[Run[Any]] = []
        """Coroutines that were gathered."""

    # ------------------------------------------------------------ for the part

    def aside(
        self, prompt: str | Sequence[int], *, role: str, sampling: Sampling | None = None
    ) -> LiveTrajectory:
        """See `stages.Scratch.aside`."""
        if not _ROLE.fullmatch(role):
            raise PartError(f"aside(role={shown(role)}): give a word of a-z, 0-9 and _.")
        sampling, job = sampling or self.view.sampling, self._origin.job
        codec = self._floor.codec
        tokens = codec.prompt(prompt) if isinstance(prompt, str) else tuple(prompt)
        self._floor.check(tokens, sampling=sampling, what=f"an aside of role {role}")
        text = prompt if isinstance(prompt, str) else codec.decode(tokens)
        return LiveTrajectory(
            f"{self._name}~{role}{len(self.asides)}",
            origin=self._origin,
            prompt=Prompt(id=f"{job.prompt.id}~{role}", tokens=tokens, text=text, answer=""),
            sampling=sampling,
            siblings=self.asides,
            role=role,
        )

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """See `stages.Scratch.gather`."""
        return gather(*waits, branches=self._branches)

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """See `stages.Scratch.call`."""
        return self._told(self._floor.desk.call(function, *args))

    def verify(self, text: str) -> Awaitable[Verdict]:
        """See `stages.Scratch.verify`."""
        return self._told(self._floor.desk.verify(self._origin.job.prompt, text=text))

    # ------------------------------------------------------------ for the runner

    def finish(self) -> None:
        """The part is done: what it still had in flight is dropped, and open asides end."""
        for trajectory in [*self.trajectories, *self.asides]:
            trajectory.withdraw()
        for aside in self.asides:
            aside.seal()

    def _told(self, pending: Pending[T]) -> Pending[T]:
        pending.when_done(self._origin.touch)
        return pending
