"""What a part does beside a group's rollouts: asides, slow calls; the floor of its trajectories."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from gfcr.engine.base import Request
from gfcr.errors import PartError, shown
from gfcr.loop.coroutine import Pending, Run, gather
from gfcr.loop.scoring import Desk
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.seeds import seed_of
from gfcr.stages import Job, View
from gfcr.tasks.base import Codec, Verdict
from gfcr.types import Prompt, Sampling

T = TypeVar("T")

_ROLE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Host(Protocol):
    """What a session needs of the runner."""

    seed: int
    codec: Codec
    desk: Desk

    def check(self, tokens: tuple[int, ...], *, sampling: Sampling, what: str) -> None:
        """Vouches that a part may ask this in place of its job's prompt, or on the side.

        Raises:
            TaskError: it does not fit the engine's context.
            PartError: it is held out.
        """
        ...

    def submit(self, trajectory: LiveTrajectory, request: Request) -> None:
        """Sends a request to the engine on behalf of a trajectory."""
        ...

    def withdraw(self, trajectory: LiveTrajectory) -> None:
        """Drops the request that the trajectory still has in flight."""
        ...

    def ended(self, trajectory: LiveTrajectory, *, prompt: Prompt) -> None:
        """Sends a trajectory that can go no further to the verifier, as an answer to a prompt."""
        ...

    def touch(self, group_id: str) -> None:
        """Marks a group whose state may have changed, so that a step looks at no other."""
        ...


class SideSession:
    """See `stages.Scratch`."""

    def __init__(
        self, job: Job, *, view: View, host: Host, group_id: str, name: str, repeat: int
    ) -> None:
        """Opens a session.

        Args:
            job: of the group.
            view: what the part sees of the run.
            host: the runner.
            group_id: of the group.
            name: tells the asides from those of the group's other sessions.
            repeat: how often the prompt was begun before in this batch.
        """
        self._job, self.view = job, view
        self.trajectories: list[LiveTrajectory] = []
        self.asides: list[LiveTrajectory] = []
        self._host, self._group_id = host, group_id
        self._name, self._repeat = name, repeat
        self._branches: list[Run[Any]] = []
        """Coroutines that were gathered."""

    # ------------------------------------------------------------ for the part

    def aside(
        self, prompt: str | Sequence[int], *, role: str, sampling: Sampling | None = None
    ) -> LiveTrajectory:
        """See `stages.Scratch.aside`."""
        if not _ROLE.fullmatch(role):
            raise PartError(f"aside(role={shown(role)}): give a word of a-z, 0-9 and _.")
        sampling = sampling or self.view.sampling
        tokens = self._host.codec.prompt(prompt) if isinstance(prompt, str) else tuple(prompt)
        self._host.check(tokens, sampling=sampling, what=f"an aside of role {role}")
        text = prompt if isinstance(prompt, str) else self.view.decode(tokens)
        aside = self._trajectory(
            f"{self._name}~{role}{len(self.asides)}",
            prompt=Prompt(id=f"{self._job.prompt.id}~{role}", tokens=tokens, text=text, answer=""),
            sampling=sampling,
            role=role,
        )
        self.asides.append(aside)
        return aside

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """See `stages.Scratch.gather`."""
        return gather(*waits, branches=self._branches)

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """See `stages.Scratch.call`."""
        return self._told(self._host.desk.call(function, *args))

    def verify(self, text: str) -> Awaitable[Verdict]:
        """See `stages.Scratch.verify`."""
        return self._told(self._host.desk.ask(self._job.prompt, text=text))

    # ------------------------------------------------------------ for the runner

    def finish(self) -> None:
        """The part is done: what it still had in flight is dropped, and open asides end."""
        for trajectory in [*self.trajectories, *self.asides]:
            if trajectory.request_id is not None:
                self._host.withdraw(trajectory)
        for aside in self.asides:
            aside.seal()

    # ------------------------------------------------------------ for its trajectories

    def request(self, trajectory: LiveTrajectory, *, max_tokens: int, stop: Sequence[int]) -> str:
        """See `trajectory.Floor`."""
        name, asked = trajectory.id.removeprefix(self._group_id), trajectory.prompt
        request = Request(
            id=f"{trajectory.id}#{trajectory.turns}",
            tokens=(*asked.tokens, *trajectory.tokens),
            sampling=replace(trajectory.sampling, max_tokens=max_tokens),
            stop=tuple(stop),
            seed=seed_of(
                self._host.seed,
                "generate",
                self._job.step,
                self._job.prompt.id,
                name,
                trajectory.turns,
                *([self._repeat] if self._repeat else []),
            ),
            priority=self._job.priority,
            draft_budget=self._job.draft_budget,
            prompt_id=asked.id,
            slot=name,
        )
        self._host.submit(trajectory, request)
        return request.id

    def forked(self, trajectory: LiveTrajectory) -> None:
        """See `trajectory.Floor`."""
        (self.asides if trajectory.role else self.trajectories).append(trajectory)

    def ended(self, trajectory: LiveTrajectory) -> None:
        """See `trajectory.Floor`."""
        if not trajectory.role:
            self._host.ended(trajectory, prompt=self._job.prompt)

    def _told(self, pending: Pending[T]) -> Pending[T]:
        pending.when_done(lambda: self._host.touch(self._group_id))
        return pending

    def _trajectory(
        self,
        name: str,
        *,
        prompt: Prompt,
        sampling: Sampling,
        train_under: Prompt | None = None,
        role: str = "",
    ) -> LiveTrajectory:
        return LiveTrajectory(
            id=f"{self._group_id}/{name}",
            group_id=self._group_id,
            prompt=prompt,
            sampling=sampling,
            floor=self,
            eos_id=self._host.codec.eos_id,
            train_under=train_under,
            role=role,
        )
