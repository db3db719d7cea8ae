"""One job on the floor: the session its Generate part works with."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, final

from gfcr.coroutine import Pending, Run, gather
from gfcr.engine.base import Request
from gfcr.errors import GfcrError, asking, described
from gfcr.seeds import seed_of
from gfcr.stages import Generate, Job, View
from gfcr.trajectory import LiveTrajectory
from gfcr.types import FinishReason


class Host(Protocol):
    """What a session needs of the runner."""

    seed: int
    step: int
    eos_id: int

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
        self._job, self.view = job, view
        self.trajectories: list[LiveTrajectory] = []
        self._host, self._group_id = host, group_id
        self._offset, self._repeat = offset, repeat
        self._run: Run[None] | None = None
        self._branches: list[Run[Any]] = []
        """Coroutines that were gathered."""

    @property
    def job(self) -> Job:
        """See `stages.Session`; read-only, so that a part cannot swap in a prompt of its own."""
        return self._job

    def start(self, generate: Generate) -> None:
        """Runs the Generate part up to its first wait."""
        self._run = Run(self._drive(generate))

    @property
    def returned(self) -> bool:
        """Whether the Generate part has returned (or raised)."""
        return self._run is not None and self._run.done

    def settle(self) -> BaseException | None:
        """After return: closes open ends. What Generate raised costs the rollouts it was about.

        Those are the ones that the coroutine waited for and those still open; when it is not one
        of several gathered, all of the job's, also where it had not opened them yet.

        Returns:
            What it raised.

        Raises:
            GfcrError: it raised that: it was written for the user.
        """
        for trajectory in self.trajectories:
            if trajectory.request_id is not None:
                self._host.withdraw(trajectory)
        failure = self._failure()
        if failure is not None and not self.trajectories:
            for index in range(self._job.num_samples):
                self.open(index)
        lost = self._lost(failure)
        for trajectory in self.trajectories:
            problem = described(lost[id(trajectory)]) if id(trajectory) in lost else None
            problem = problem or trajectory.problem()
            if trajectory.finish == FinishReason.ABORTED:
                continue
            if problem is None:
                trajectory.seal()
            else:
                trajectory.fail(problem)
        return failure

    def _lost(self, failure: BaseException | None) -> dict[int, BaseException]:
        """The trajectories that a failure costs, by identity, each with what it was lost to."""
        if failure is None:
            return {}
        everyone = {id(t): failure for t in self.trajectories}
        failed = [branch for branch in self._branches if branch.error is not None]
        if not any(branch.error is failure for branch in failed):
            return everyone
        lost = {id(t): failure for t in self.trajectories if t.finish is None}
        for branch in failed:
            if not branch.owners:
                return everyone
            lost |= {id(t): branch.error or failure for t in branch.owners}
        return lost

    def cancel(self) -> None:
        """Stops the Generate part."""
        if self._run is not None and not self._run.done:
            with asking("generate"):
                self._run.cancel()

    async def _drive(self, generate: Generate) -> None:
        await generate.run(self)

    def _failure(self) -> BaseException | None:
        assert self._run is not None
        try:
            self._run.result()
        except GfcrError:
            raise
        except (Exception, SystemExit) as error:
            return error
        return None if self.trajectories else RuntimeError("Generate.run opened no trajectory")

    # ------------------------------------------------------------ for the Generate part

    def open(self, index: int) -> LiveTrajectory:
        """See `stages.Session.open`."""
        trajectory = LiveTrajectory(
            id=f"{self._group_id}/{self._offset + index}",
            prompt=self._job.prompt,
            floor=self,
            eos_id=self._host.eos_id,
        )
        self.trajectories.append(trajectory)
        if index < len(self._job.resume):
            trajectory.resume(self._job.resume[index])
        return trajectory

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """See `stages.Session.gather`."""
        return gather(*waits, branches=self._branches)

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """See `stages.Session.call`."""
        return self._host.call(self._group_id, function, *args)

    # ------------------------------------------------------------ for its trajectories

    def request(self, trajectory: LiveTrajectory, *, max_tokens: int, stop: Sequence[int]) -> str:
        """See `trajectory.Floor`."""
        name = trajectory.id.removeprefix(self._group_id)
        request = Request(
            id=f"{trajectory.id}#{trajectory.turns}",
            tokens=(*self._job.prompt.tokens, *trajectory.tokens),
            sampling=replace(self._job.sampling, max_tokens=max_tokens),
            stop=tuple(stop),
            seed=seed_of(
                self._host.seed,
                "generate",
                self._host.step,
                self._job.prompt.id,
                name,
                trajectory.turns,
                *([self._repeat] if self._repeat else []),
            ),
            priority=self._job.priority,
            draft_budget=self._job.draft_budget,
            prompt_id=self._job.prompt.id,
            slot=name,
        )
        self._host.submit(trajectory, request)
        return request.id

    def room(self, trajectory: LiveTrajectory) -> int:
        """See `trajectory.Floor`."""
        return self._job.sampling.max_tokens - len(trajectory.tokens)

    def forked(self, trajectory: LiveTrajectory) -> None:
        """See `trajectory.Floor`."""
        self.trajectories.append(trajectory)

    def ended(self, trajectory: LiveTrajectory) -> None:
        """See `trajectory.Floor`."""
        self._host.ended(trajectory)
