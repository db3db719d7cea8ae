"""One job on the floor: the session its Generate part works with."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, final

from gfcr.coroutine import Pending, Run, gather
from gfcr.engine.base import Request
from gfcr.seeds import seed_of
from gfcr.stages import Generate, Job, View
from gfcr.trajectory import LiveTrajectory


class Host(Protocol):
    """What a session needs of the runner."""

    seed: int
    step: int
    eos_id: int
    max_length: int

    def submit(self, trajectory: LiveTrajectory, request: Request) -> None:
        """Sends a request to the engine on behalf of a trajectory."""
        ...

    def withdraw(self, trajectory: LiveTrajectory) -> None:
        """Drops the request that the trajectory still has in flight."""
        ...

    def ended(self, trajectory: LiveTrajectory) -> None:
        """Sends a trajectory that can go no further to the verifier."""
        ...

    def call(self, group_id: str, function: Callable[..., Any], *args: Any) -> Pending[Any]:
        """Runs slow work beside the loop on behalf of a group."""
        ...


@final
class JobSession:
    """See `stages.Session`; also the floor its trajectories stand on."""

    def __init__(
        self, job: Job, *, view: View, host: Host, group_id: str, offset: int, repeat: int
    ) -> None:
        self.job, self.view = job, view
        self.trajectories: list[LiveTrajectory] = []
        self._host, self._group_id = host, group_id
        self._offset, self._repeat = offset, repeat
        self._run: Run[None] | None = None

    def start(self, generate: Generate) -> None:
        """Runs the Generate part up to its first wait."""
        self._run = Run(generate.run(self))

    @property
    def returned(self) -> bool:
        """Whether the Generate part has returned (or raised)."""
        return self._run is not None and self._run.done

    def settle(self) -> None:
        """After return: closes open ends, or marks them failed when Generate raised."""
        assert self._run is not None
        for trajectory in self.trajectories:
            if trajectory.request_id is not None:
                self._host.withdraw(trajectory)
        try:
            self._run.result()
        except Exception as error:
            if not self.trajectories:
                raise
            for trajectory in self.trajectories:
                if trajectory.finish is None:
                    trajectory.fail(f"{type(error).__name__}: {error}")
        for trajectory in self.trajectories:
            trajectory.seal()

    def cancel(self) -> None:
        """Stops the Generate part."""
        if self._run is not None and not self._run.done:
            self._run.cancel()

    # ------------------------------------------------------------ for the Generate part

    def open(self, index: int) -> LiveTrajectory:
        """See `stages.Session.open`."""
        trajectory = LiveTrajectory(
            id=f"{self._group_id}/{self._offset + index}",
            prompt=self.job.prompt,
            floor=self,
            eos_id=self._host.eos_id,
        )
        self.trajectories.append(trajectory)
        if index < len(self.job.resume):
            trajectory.resume(self.job.resume[index])
        return trajectory

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """See `stages.Session.gather`."""
        return gather(*waits)

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """See `stages.Session.call`."""
        return self._host.call(self._group_id, function, *args)

    # ------------------------------------------------------------ for its trajectories

    def request(self, trajectory: LiveTrajectory, *, max_tokens: int, stop: Sequence[int]) -> str:
        """See `trajectory.Floor`."""
        name = trajectory.id.removeprefix(self._group_id)
        request = Request(
            id=f"{trajectory.id}#{trajectory.turns}",
            tokens=(*self.job.prompt.tokens, *trajectory.tokens),
            sampling=replace(self.job.sampling, max_tokens=max_tokens),
            stop=tuple(stop),
            seed=seed_of(
                self._host.seed,
                "generate",
                self._host.step,
                self.job.prompt.id,
                name,
                trajectory.turns,
                *([self._repeat] if self._repeat else []),
            ),
            priority=self.job.priority,
            draft_budget=self.job.draft_budget,
            prompt_id=self.job.prompt.id,
            slot=name,
        )
        self._host.submit(trajectory, request)
        return request.id

    def room(self, trajectory: LiveTrajectory) -> int:
        """See `trajectory.Floor`."""
        used = len(trajectory.tokens)
        by_engine = self._host.max_length - len(self.job.prompt.tokens) - used
        return min(self.job.sampling.max_tokens - used, by_engine)

    def forked(self, trajectory: LiveTrajectory) -> None:
        """See `trajectory.Floor`."""
        self.trajectories.append(trajectory)

    def ended(self, trajectory: LiveTrajectory) -> None:
        """See `trajectory.Floor`."""
        self._host.ended(trajectory)
