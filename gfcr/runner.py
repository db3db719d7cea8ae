"""The event loop: steps the engine, feeds trajectories, wakes Generate parts, scores rollouts."""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, final

from gfcr.batch import first_signal
from gfcr.coroutine import Pending
from gfcr.engine.base import Delta, Engine, Request
from gfcr.errors import EngineError, GfcrError, asking, described
from gfcr.guard import check_fits, check_watched
from gfcr.ledger import Ledger
from gfcr.metrics import reason_of
from gfcr.scoring import Desk
from gfcr.session import JobSession
from gfcr.stages import BATCH_FULL, Abort, Cap, Generate, Halt, Job, View, Watcher
from gfcr.tasks.base import Codec, Verdict
from gfcr.trajectory import LiveTrajectory
from gfcr.types import FinishReason, Group, Rollout

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class _Cell:
    """A group in the making."""

    id: str
    job: Job
    repeat: int
    sessions: list[JobSession] = field(default_factory=list[JobSession])
    verdicts: dict[str, Verdict] = field(default_factory=dict[str, Verdict])
    settled: int = 0
    """Sessions whose trajectories have all been closed and sent to the verifier."""

    @property
    def trajectories(self) -> list[LiveTrajectory]:
        return [t for s in self.sessions for t in s.trajectories]


@final
class Runner:
    """Makes scored groups of jobs, for one batch or one evaluation."""

    def __init__(
        self,
        *,
        engine: Engine,
        codec: Codec,
        desk: Desk,
        ledger: Ledger,
        generate: Generate,
        watchers: Mapping[str, Watcher],
        view: View,
        seed: int,
        step: int,
        address: str = "generate",
        told: set[str] | None = None,
    ) -> None:
        """Makes a runner; `told` holds the kinds of failures that were shown."""
        self.seed, self.step, self.eos_id = seed, step, codec.eos_id
        self._address, self._told = address, set[str]() if told is None else told
        self._fault: GfcrError | None = None
        """Why the engine failed, also where a Generate part caught it."""
        self._engine, self._codec, self._desk, self._ledger = engine, codec, desk, ledger
        self._generate, self._watchers, self._view = generate, watchers, view
        self._cells: dict[str, _Cell] = {}
        self._by_request: dict[str, LiveTrajectory] = {}
        self._done: dict[str, _Cell] = {}
        self._touched: dict[str, None] = {}
        self._cut: list[Rollout] = []

    @property
    def num_groups(self) -> int:
        """Groups in the making."""
        return len(self._cells)

    @property
    def running(self) -> int:
        """Requests in flight."""
        return len(self._by_request)

    def start(self, job: Job, *, group_id: str, repeat: int = 0) -> None:
        """Begins a group, the `repeat`-th one of its prompt in this batch.

        Raises:
            TaskError: prompt and longest rollout do not fit the engine's context.
        """
        check_fits(job, max_length=self._engine.max_length)
        cell = self._cells[group_id] = _Cell(id=group_id, job=job, repeat=repeat)
        self._open(cell, job)

    def more(self, group: Group, *, num_samples: int, job: Job) -> None:
        """Reopens a group that `advance` returned and adds samples to it."""
        cell = self._cells[group.id] = self._done.pop(group.id)
        self._open(cell, replace(job, num_samples=num_samples, resume=()))

    def advance(self) -> list[Group]:
        """Runs the engine once and returns the groups that became complete and scored.

        Raises:
            EngineError: the engine failed, now or when it was given a request.
            PartError: a Watcher failed.
        """
        if self._by_request and self._fault is None:
            with self._engine_at("a step"):
                deltas = self._engine.step()
            for delta in deltas:
                self._take(delta)
        elif self._desk.busy:
            self._desk.wait()
        groups = self._complete()
        if self._fault is not None:
            raise self._fault
        return groups

    def abort(self) -> list[Rollout]:
        """Cuts every group in the making; returns their rollouts, finished ones included."""
        self._engine.abort(list(self._by_request))
        self._by_request.clear()
        rollouts: list[Rollout] = []
        for cell in self._cells.values():
            for session in cell.sessions:
                session.cancel()
            for trajectory in cell.trajectories:
                trajectory.cut(BATCH_FULL)
                rollouts.append(self._rollout(cell, trajectory))
        self._cells.clear()
        self._desk.forget()
        return rollouts

    def take_cut(self) -> list[Rollout]:
        """Takes the trajectories that a watcher aborted, out of their groups."""
        cut, self._cut = self._cut, []
        return cut

    # ------------------------------------------------------------ for sessions

    def submit(self, trajectory: LiveTrajectory, request: Request) -> None:
        """See `session.Host`."""
        with self._engine_at(f"taking request {request.id!r}"):
            self._engine.submit(request)
        self._by_request[request.id] = trajectory

    def withdraw(self, trajectory: LiveTrajectory) -> None:
        """See `session.Host`."""
        assert trajectory.request_id is not None
        with self._engine_at(f"dropping request {trajectory.request_id!r}"):
            self._engine.abort([trajectory.request_id])
        del self._by_request[trajectory.request_id]
        trajectory.request_id = None

    def ended(self, trajectory: LiveTrajectory) -> None:
        """See `session.Host`."""
        if trajectory.finish == FinishReason.ABORTED:
            return
        text = self._codec.decode(trajectory.tokens)
        self._desk.verify(trajectory.id, prompt=trajectory.prompt, text=text)

    def call(self, group_id: str, function: Callable[..., Any], *args: Any) -> Pending[Any]:
        """See `session.Host`."""
        pending = self._desk.call(function, *args)
        pending.when_done(lambda: self._touch(group_id))
        return pending

    # ------------------------------------------------------------ events

    def _open(self, cell: _Cell, job: Job) -> None:
        session = JobSession(
            job,
            view=self._view,
            host=self,
            group_id=cell.id,
            offset=len(cell.trajectories),
            repeat=cell.repeat,
        )
        cell.sessions.append(session)
        session.start(self._generate)
        self._touch(cell.id)

    def _touch(self, group_id: str) -> None:
        """Marks a group whose state may have changed, so that a step looks at no other."""
        self._touched[group_id] = None

    @contextmanager
    def _engine_at(self, work: str) -> Generator[None]:
        """Keeps what the engine raises: a Generate part in between must not pass for its cause."""
        try:
            yield
        except GfcrError as error:
            self._fault = error
            raise
        except Exception as error:
            self._fault = EngineError(f"the engine failed at {work}: {described(error)}")
            raise self._fault from error

    def _take(self, delta: Delta) -> None:
        trajectory = self._by_request.get(delta.request_id)
        problem = delta.problem if trajectory else "nobody asked for it"
        if trajectory is None or problem:
            raise EngineError(f"the engine's answer to request {delta.request_id!r}: {problem}.")
        self._ledger.generated(delta.request_id, num=len(delta.tokens))
        trajectory.extend(delta, version=self._engine.version)
        if delta.finish is not None:
            del self._by_request[delta.request_id]
            trajectory.close_request(delta.finish)
            self._touch(_group_of(trajectory.id))
            return
        for name, watcher in self._watchers.items():
            with asking(name):
                action = watcher.watch(trajectory, new=len(delta.tokens), view=self._view)
            check_watched(action, by=name)
            if isinstance(action, Cap):
                sampled = trajectory.spans[-1].stop - trajectory.spans[-1].start
                self._engine.limit(delta.request_id, max_tokens=sampled + action.max_tokens)
            elif action is not None:
                self._stop(trajectory, delta.request_id, action=action, rule=name)
                return

    def _stop(
        self, trajectory: LiveTrajectory, request_id: str, *, action: Halt | Abort, rule: str
    ) -> None:
        self._engine.abort([request_id])
        del self._by_request[request_id]
        halted = isinstance(action, Halt)
        finish = FinishReason.HALTED if halted else FinishReason.ABORTED
        trajectory.halt(f"{rule}: {action.reason}", finish=finish)
        self._touch(_group_of(trajectory.id))

    def _complete(self) -> list[Group]:
        """Hands out verdicts, closes returned sessions, pops groups that are complete."""
        complete: list[Group] = []
        while True:
            for key, verdict in self._desk.verdicts():
                # A job that failed after some of its rollouts had ended does not wait for theirs.
                if cell := self._cells.get(_group_of(key)):
                    cell.verdicts[key] = verdict
                    self._touch(cell.id)
            touched, self._touched = self._touched, {}
            if not touched:
                return complete
            for cell in [self._cells[g] for g in touched if g in self._cells]:
                self._settle(cell)
                if self._is_complete(cell):
                    self._done[cell.id] = self._cells.pop(cell.id)
                    complete.append(self._group(cell))

    def _settle(self, cell: _Cell) -> None:
        while cell.settled < len(cell.sessions) and cell.sessions[cell.settled].returned:
            failure = cell.sessions[cell.settled].settle()
            cell.settled += 1
            if failure is not None:
                said = f"strategy.{self._address} failed on prompt {cell.job.prompt.id!r}"
                self._tell(self._address, f"{said}: {described(failure)}", error=failure)

    def _is_complete(self, cell: _Cell) -> bool:
        return cell.settled == len(cell.sessions) and all(
            t.id in cell.verdicts or t.finish in (FinishReason.ERROR, FinishReason.ABORTED)
            for t in cell.trajectories
        )

    def _group(self, cell: _Cell) -> Group:
        rollouts = [self._rollout(cell, t) for t in cell.trajectories]
        self._cut += [r for r in rollouts if r.finish == FinishReason.ABORTED]
        kept = tuple(r for r in rollouts if r.finish != FinishReason.ABORTED)
        return Group(
            id=cell.id,
            prompt=cell.job.prompt,
            rollouts=kept,
            signals=tuple(first_signal(r) for r in kept),
            values=dict(cell.job.notes),
        )

    def _rollout(self, cell: _Cell, trajectory: LiveTrajectory) -> Rollout:
        text = self._codec.decode(trajectory.tokens)
        rollout = trajectory.rollout(group_id=cell.id, step=self.step, text=text)
        verdict = cell.verdicts.get(trajectory.id)
        if rollout.finish == FinishReason.ERROR:
            self._tell(self._address, f"rollout {rollout.id} failed: {rollout.error}")
            return rollout
        if verdict is None:
            return rollout
        judged = replace(rollout, reward=verdict.reward, error=verdict.error)
        if verdict.error is not None:
            reason = str(reason_of(judged))
            self._tell(reason, f"rollout {rollout.id} is unscorable: {verdict.error}")
        return judged

    def _tell(self, kind: str, words: str, *, error: BaseException | None = None) -> None:
        """Shows the first failure of a kind; metrics count them all."""
        if kind not in self._told:
            self._told.add(kind)
            log.error("%s (the first one; see `unscorable/*`)", words, exc_info=error)


def _group_of(trajectory_id: str) -> str:
    return trajectory_id.rpartition("/")[0]
