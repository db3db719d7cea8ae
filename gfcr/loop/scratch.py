"""What a part does beside a group's rollouts: side requests and calls of slow functions."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from gfcr.errors import PartError, TaskError, shown
from gfcr.handles import Posed
from gfcr.loop.coroutine import Pending, Run, gather
from gfcr.loop.floor import Origin
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.stages import Scratch
from gfcr.tasks.base import Verdict
from gfcr.types import Prompt, Rollout, Sampling

T = TypeVar("T")

_ROLE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


class SideSession(Scratch):
    """The session of an Evaluator, see `stages.Scratch`."""

    def __init__(self, origin: Origin, *, name: str) -> None:
        """Opens a session without requests.

        Args:
            origin: the group and job that it is for.
            name: tells its asides from those of the group's other sessions.
        """
        self.view, self._origin, self._floor, self._name = origin.view, origin, origin.floor, name
        self.trajectories: list[LiveTrajectory] = []
        self.asides: list[LiveTrajectory] = []
        self._branches: list[Run[Any]] = []
        """The coroutines that the part gathered."""

    # ------------------------------------------------------------ for the part

    def aside(
        self, prompt: str | Sequence[int] | Prompt, *, role: str, sampling: Sampling | None = None
    ) -> LiveTrajectory:
        if not _ROLE.fullmatch(role):
            raise PartError(f"aside(role={shown(role)}): give a word of a-z, 0-9 and _.")
        sampling = sampling or self.view.sampling
        asked = prompt if isinstance(prompt, Prompt) else self._words(prompt, role=role)
        self._floor.check(asked.tokens, sampling=sampling, what=f"an aside of role {role}")
        return LiveTrajectory(
            f"{self._name}~{role}{len(self.asides)}",
            origin=self._origin,
            prompt=asked,
            sampling=sampling,
            siblings=self.asides,
            role=role,
        )

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        return gather(*waits, branches=self._branches)

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        return self._told(self._floor.desk.call(function, *args))

    def verify(self, text: str, *, prompt: Prompt | None = None) -> Awaitable[Verdict]:
        asked = self._origin.job.prompt if prompt is None else prompt
        tokens = self._floor.codec.encode(text) if self._floor.desk.task.together else ()
        place = f"{self._origin.group_id}/{self._name}"
        return self._told(self._floor.desk.verify(asked, text=text, tokens=tokens, place=place))

    async def pose(self, rollout: Rollout) -> Posed:
        found = await self._told(self._floor.desk.pose(rollout.prompt, text=rollout.text))
        return found if found.problem else self._taken_up(found, by=rollout)

    # ------------------------------------------------------------ for the runner

    def finish(self) -> None:
        """Ends the session when its part is done: drops requests and closes open asides."""
        self.withdraw()
        for aside in self.asides:
            aside.seal()

    def withdraw(self) -> None:
        """Drops all requests in flight."""
        for trajectory in [*self.trajectories, *self.asides]:
            trajectory.withdraw()

    def _words(self, given: str | Sequence[int], *, role: str) -> Prompt:
        codec, name = self._floor.codec, f"{self._origin.job.prompt.id}~{role}"
        if isinstance(given, str):
            return Prompt(id=name, tokens=codec.prompt(given), text=given, answer="")
        return Prompt(id=name, tokens=tuple(given), text=codec.decode(given), answer="")

    def _taken_up(self, found: Posed, *, by: Rollout) -> Posed:
        try:
            tokens = self._floor.codec.prompt(found.text)
        except TaskError:
            return Posed(problem="vocabulary")
        if tokens in self._floor.heldout:
            return Posed(problem="heldout", excused=True)
        if len(tokens) > self.view.room:
            return Posed(problem="room")
        origin = {"proposed_by": by.id, "proposed_at": int(by.versions_T.max(initial=0))}
        name, meta = f"posed:{by.id}", {**found.meta, **origin}
        prompt = self.view.prompt(found.text, answer=found.answer, id=name, meta=meta)
        return replace(found, prompt=prompt)

    def _told(self, pending: Pending[T]) -> Pending[T]:
        pending.when_done(self._origin.touch)
        return pending
