"""The event loop: steps the engine, feeds trajectories, wakes Generate parts, scores rollouts."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

from gfcr.coroutine import Pending
from gfcr.engine.base import Delta, Engine, Request
from gfcr.ledger import Ledger
from gfcr.scoring import Desk
from gfcr.session import JobSession
from gfcr.stages import BATCH_FULL, Abort, Cap, Generate, Halt, Job, View, Watcher
from gfcr.tasks.base import Codec, Verdict
from gfcr.trajectory import LiveTrajectory
from gfcr.types import FinishReason, Group, Rollout, Signal

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
    ) -> None:
        self.seed, self.step = seed, step
        self.eos_id, self.max_length = codec.eos_id, engine.max_length
        self._engine, self._codec, self._desk, self._ledger = engine, codec, desk, ledger
        self._generate, self._watchers, self._view = generate, watchers, view
        self._cells: dict[str, _Cell] = {}
        self._by_request: dict[str, LiveTrajectory] = {}
        self._done: dict[str, _Cell] = {}
        self._touched: dict[str, None] = {}
        self._cut: list[Rollout] = []

    @property
    def busy(self) -> bool:
        """Whether any group is in the making."""
        return bool(self._cells)

    @property
    def running(self) -> int:
        """Requests in flight."""
        return len(self._by_request)

    def start(self, job: Job, *, group_id: str, repeat: int = 0) -> None:
        """Begins a group, the `repeat`-th one of its prompt in this batch."""
        cell = self._cells[group_id] = _Cell(id=group_id, job=job, repeat=repeat)
        self._open(cell, job)

    def more(self, group: Group, *, num_samples: int, job: Job) -> None:
        """Reopens a group that `advance` returned and adds samples to it."""
        cell = self._cells[group.id] = self._done.pop(group.id)
        self._open(cell, replace(job, num_samples=num_samples, resume=()))

    def advance(self) -> list[Group]:
        """Runs the engine once and returns the groups that became complete and scored."""
        if self._by_request:
            for delta in self._engine.step():
                self._take(delta)
        elif self._desk.busy:
            self._desk.wait()
        return self._complete()

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
        self._engine.submit(request)
        self._by_request[request.id] = trajectory

    def withdraw(self, trajectory: LiveTrajectory) -> None:
        """See `session.Host`."""
        assert trajectory.request_id is not None
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

    def _take(self, delta: Delta) -> None:
        trajectory = self._by_request[delta.request_id]
        self._ledger.generated(delta.request_id, num=len(delta.tokens))
        trajectory.extend(delta, version=self._engine.version)
        if delta.finish is not None:
            del self._by_request[delta.request_id]
            trajectory.close_request(delta.finish)
            self._touch(_group_of(trajectory.id))
            return
        for name, watcher in self._watchers.items():
            action = watcher.watch(trajectory, new=len(delta.tokens), view=self._view)
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
                self._cells[_group_of(key)].verdicts[key] = verdict
                self._touch(_group_of(key))
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
            cell.sessions[cell.settled].settle()
            cell.settled += 1

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
            signals=tuple(_first_signal(r) for r in kept),
            values=dict(cell.job.notes),
        )

    def _rollout(self, cell: _Cell, trajectory: LiveTrajectory) -> Rollout:
        text = self._codec.decode(trajectory.tokens)
        rollout = trajectory.rollout(group_id=cell.id, step=self.step, text=text)
        verdict = cell.verdicts.get(trajectory.id)
        if verdict is None:
            return rollout
        if verdict.error is not None:
            log.warning("unscorable rollout %s: %s", rollout.id, verdict.error)
        return replace(rollout, reward=verdict.reward, error=verdict.error)


def _first_signal(rollout: Rollout) -> Signal:
    """A failed Generate or verifier makes a rollout unscorable: never reward 0."""
    reason = "error" if rollout.finish == FinishReason.ERROR else "unscorable"
    return Signal(reward=rollout.reward, rejected=reason if rollout.reward is None else None)


def _group_of(trajectory_id: str) -> str:
    return trajectory_id.rpartition("/")[0]
