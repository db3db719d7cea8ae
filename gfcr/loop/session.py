"""The session in which a Generate part works on one job."""

from typing import final

from gfcr.errors import GfcrError, asking
from gfcr.loop.coroutine import Run
from gfcr.loop.floor import Origin
from gfcr.loop.scratch import SideSession
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.stages import Generate, Job, Session
from gfcr.types import Prompt


@final
class JobSession(SideSession, Session):
    """The session of one job, see `stages.Session`."""

    def __init__(self, origin: Origin, *, offset: int) -> None:
        """Opens a session for a job in a group that already has `offset` rollouts."""
        super().__init__(origin, name=str(offset) if offset else "")
        self._offset = offset
        self._run: Run[None] | None = None
        self.settled = False
        """Whether its trajectories have all been closed and sent to the verifier."""

    @property
    def job(self) -> Job:
        """See `stages.Session`; read-only, so that a part cannot swap in a prompt of its own."""
        return self._origin.job

    @property
    def is_verified(self) -> bool:
        """Returns whether none of its rollouts is still being made or verified."""
        return self.settled and all(t.is_verified for t in self.trajectories)

    @property
    def behind(self) -> int:
        """Returns the first place behind all that its trajectories have, some of them left out."""
        return max([self._offset, *(_place(t.name)[1][0] + 1 for t in self.trajectories)])

    def start(self, generate: Generate) -> None:
        """Runs the Generate part up to its first wait."""
        self._run = Run(self._drive(generate))

    @property
    def returned(self) -> bool:
        """Returns whether the Generate part has returned (or raised)."""
        return self._run is not None and self._run.done

    def settle(self) -> None:
        """Closes open trajectories after return; a failure costs only the rollouts it concerns.

        Those are the rollouts that the coroutine waited for and those still open; if it is not one
        of several gathered, all of the job's, even if it had not opened them yet.

        Raises:
            GfcrError: the part raised one, whose message is passed on to the user as it is.
        """
        self.finish()
        self.settled = True
        # They are opened and forked as others end, in an order that depends on time.
        self.trajectories.sort(key=lambda t: _place(t.name))
        failure = self._failure()
        if failure is not None and not self.trajectories:
            # Metrics count failed rollouts by reason; a group without any would only be `empty`.
            for index in range(self.job.num_samples):
                self.open(index)
        lost = self._lost(failure)
        for trajectory in self.trajectories:
            problem = lost.get(id(trajectory)) or trajectory.problem()
            if problem is None:
                trajectory.seal()
            else:
                trajectory.fail(problem)

    def _lost(self, failure: BaseException | None) -> dict[int, BaseException]:
        """Returns the trajectories that a failure costs, by identity, with the error of each."""
        if failure is None:
            return {}
        everyone = {id(t): failure for t in self.trajectories}
        failed = [branch for branch in self._branches if branch.error is not None]
        if not any(branch.error is failure for branch in failed):
            return everyone
        lost = {id(t): failure for t in self.trajectories if t.finish is None}
        for branch in failed:
            owners = [t for t in branch.owners if not t.role]
            if not owners:
                return everyone
            lost |= {id(t): branch.error or failure for t in owners}
        return lost

    def cancel(self) -> None:
        """Stops the Generate part."""
        if self._run is not None:
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

    def open(
        self,
        index: int,
        *,
        prompt: Prompt | None = None,
        train_under: Prompt | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        verify: bool = True,
    ) -> LiveTrajectory:
        job, sampling = self.job, self.job.sampling
        if temperature is not None:
            sampling = self._floor.heated(sampling, temperature=temperature)
        if max_tokens is not None:
            sampling = self._floor.capped(sampling, max_tokens=max_tokens)
        if prompt is not None:
            self._floor.check(prompt.tokens, sampling=sampling, what=f"prompt {prompt.id!r}")
        trajectory = LiveTrajectory(
            str(self._offset + index),
            origin=self._origin,
            prompt=prompt or job.prompt,
            sampling=sampling,
            siblings=self.trajectories,
            train_under=train_under,
            verify=verify,
        )
        if index < len(job.resume):
            trajectory.resume(job.resume[index])
        heated = sampling.temperature != self._origin.view.sampling.temperature
        if heated and trajectory.finish is None:
            trajectory.notes["temperature"] = sampling.temperature
        return trajectory


def _place(name: str) -> tuple[int, list[int]]:
    """Returns a trajectory's place in its group, by its name: forks come behind all others."""
    path = [int(number) for number in name.split(".")]
    return len(path), path
