"""The event loop: steps the engine, feeds trajectories, wakes Generate parts, scores rollouts."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import final

from gfcr.engine.base import Delta, Engine, Request
from gfcr.errors import EngineError, PartError, asking, described
from gfcr.ledger import Ledger, aside
from gfcr.loop.cell import Cell, scored_again
from gfcr.loop.faults import EngineFault, Told
from gfcr.loop.judging import Judging
from gfcr.loop.metrics import reason_of
from gfcr.loop.rules import check_fits, check_room, check_watched
from gfcr.loop.scoring import Desk
from gfcr.loop.session import JobSession
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.stages import (
    BATCH_FULL,
    Abort,
    Cap,
    Evaluator,
    Generate,
    Halt,
    Job,
    SampleMore,
    View,
    Watcher,
)
from gfcr.tasks.base import Codec
from gfcr.types import FinishReason, Group, Prompt, Rollout, Sampling


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
        evaluators: Mapping[str, Evaluator],
        view: View,
        seed: int,
        heldout: Collection[tuple[int, ...]] = (),
        address: str = "generate",
        told: Told | None = None,
    ) -> None:
        """Makes a runner; `told` knows which failures were shown, `heldout` what is not asked."""
        self.seed, self.codec, self.desk = seed, codec, desk
        self._address, self._told = address, told or Told()
        self._fault = EngineFault()
        self._engine, self._ledger = engine, ledger
        self._generate, self._watchers, self._evaluators = generate, watchers, evaluators
        self._view, self._heldout = view, heldout
        self._cells: dict[str, Cell] = {}
        self._by_request: dict[str, LiveTrajectory] = {}
        self._done: dict[str, Cell] = {}
        self._touched: dict[str, None] = {}
        self._verifying: dict[str, str] = {}
        """Trajectory at the verifier -> its group."""
        self._cut, self._asides = list[Rollout](), list[Rollout]()

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
        cell = self._cells[group_id] = Cell(id=group_id, job=job, repeat=repeat)
        self._open(cell, job)

    def more(self, group: Group, *, action: SampleMore) -> None:
        """Reopens a group that `advance` returned and adds samples to it."""
        cell = self._cells[group.id] = self._done.pop(group.id)
        cell.judging, notes = None, {**cell.job.notes, **action.notes}
        job = replace(cell.job, num_samples=action.num_samples, resume=(), notes=notes)
        self._open(cell, job)

    def advance(self) -> list[Group]:
        """Runs the engine once and returns the groups that became complete and scored.

        Raises:
            EngineError: the engine failed, now or when it was given a request.
            PartError: a Watcher failed.
        """
        if self._by_request and self._fault.error is None:
            with self._fault.at("a step"):
                deltas = self._engine.step()
            for delta in deltas:
                self._take(delta)
        elif self.desk.busy:
            self.desk.wait()
        groups = self._complete()
        if self._fault.error is not None:
            raise self._fault.error
        return groups

    def abort(self) -> list[Rollout]:
        """Cuts every group in the making; returns their rollouts, finished ones included."""
        self._engine.abort(list(self._by_request))
        self._by_request.clear()
        self._take_verdicts()
        rollouts: list[Rollout] = []
        for cell in self._cells.values():
            cell.cancel()
            for trajectory in [*cell.trajectories, *cell.asides]:
                trajectory.cut(BATCH_FULL)
            rollouts += [self._rollout(cell, t) for t in cell.trajectories]
            self._settle_asides(cell)
        self._cells.clear()
        self.desk.forget()
        self._verifying.clear()
        return rollouts

    def take_cut(self) -> list[Rollout]:
        """Takes the trajectories that a watcher aborted, out of their groups."""
        cut, self._cut = self._cut, []
        return cut

    def take_asides(self) -> list[Rollout]:
        """Takes what parts asked on the side for groups that are complete or were cut."""
        taken, self._asides = self._asides, []
        return taken

    # ------------------------------------------------------------ for sessions

    def check(self, tokens: tuple[int, ...], *, sampling: Sampling, what: str) -> None:
        """See `scratch.Host`."""
        check_room(tokens, sampling, max_length=self._engine.max_length, what=what)
        if tokens in self._heldout:
            raise PartError(f"{what} is held out: nothing held out is asked in training.")

    def submit(self, trajectory: LiveTrajectory, request: Request) -> None:
        """See `scratch.Host`."""
        with self._fault.at(f"taking request {request.id!r}"):
            self._engine.submit(request)
        self._by_request[request.id] = trajectory

    def withdraw(self, trajectory: LiveTrajectory) -> None:
        """See `scratch.Host`."""
        assert trajectory.request_id is not None
        with self._fault.at(f"dropping request {trajectory.request_id!r}"):
            self._engine.abort([trajectory.request_id])
        del self._by_request[trajectory.request_id]
        trajectory.request_id = None

    def ended(self, trajectory: LiveTrajectory, *, prompt: Prompt) -> None:
        """See `scratch.Host`."""
        if trajectory.finish == FinishReason.ABORTED:
            return
        if trajectory.verdict is not None:
            self._cells[trajectory.group_id].verdicts[trajectory.id] = trajectory.verdict
            return
        text = self.codec.decode(trajectory.tokens)
        self._verifying[trajectory.id] = trajectory.group_id
        self.desk.verify(trajectory.id, prompt=prompt, text=text)

    def touch(self, group_id: str) -> None:
        """See `scratch.Host`."""
        self._touched[group_id] = None

    # ------------------------------------------------------------ events

    def _open(self, cell: Cell, job: Job) -> None:
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
        self.touch(cell.id)

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
            self.touch(trajectory.group_id)
            return
        for name, watcher in self._watchers.items() if not trajectory.role else ():
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
        self.touch(trajectory.group_id)

    def _complete(self) -> list[Group]:
        """Hands out verdicts, closes returned sessions, pops groups that are complete."""
        complete: list[Group] = []
        while True:
            self._take_verdicts()
            touched, self._touched = self._touched, {}
            if not touched:
                return complete
            for cell in [self._cells[g] for g in touched if g in self._cells]:
                self._settle(cell)
                if cell.is_verified and (group := self._judged(cell)):
                    self._done[cell.id] = self._cells.pop(cell.id)
                    self._settle_asides(cell)
                    complete.append(group)

    def _take_verdicts(self) -> None:
        for key, verdict in self.desk.verdicts():
            # A job that failed after some of its rollouts had ended does not wait for theirs.
            if cell := self._cells.get(self._verifying.pop(key, "")):
                cell.verdicts[key] = verdict
                self.touch(cell.id)

    def _settle(self, cell: Cell) -> None:
        while cell.settled < len(cell.sessions) and cell.sessions[cell.settled].returned:
            failure = cell.sessions[cell.settled].settle()
            cell.settled += 1
            if failure is not None:
                said = f"strategy.{self._address} failed on prompt {cell.job.prompt.id!r}"
                self._told.tell(self._address, f"{said}: {described(failure)}", error=failure)

    def _judged(self, cell: Cell) -> Group | None:
        """The group with all that Evaluators say of it, once they have."""
        if cell.judging is None:
            group, evaluators = self._group(cell), self._evaluators
            beside = partial(cell.beside, view=self._view, host=self)
            cell.judging = Judging(group, evaluators=evaluators, beside=beside)
        before = len(cell.judging.failures)
        judged = cell.judging.advance()
        for address, error in cell.judging.failures[before:]:
            said = f"strategy.{address} failed on group {cell.id}: {described(error)}"
            self._told.tell(address, said, error=error)
        return judged

    def _settle_asides(self, cell: Cell) -> None:
        """Tokens of a cell's asides leave flight, and the records get what was asked."""
        for each in cell.take_asides():
            self._ledger.settle(each.spans, bin=aside(each.role))
            text = self.codec.decode(each.tokens)
            self._asides.append(each.rollout(step=cell.job.step, text=text))

    def _group(self, cell: Cell) -> Group:
        rollouts = [self._rollout(cell, t) for t in cell.trajectories]
        self._cut += [r for r in rollouts if r.finish == FinishReason.ABORTED]
        kept = [r for r in rollouts if r.finish != FinishReason.ABORTED]
        with self._fault.at("scoring"):
            return cell.group(scored_again(kept, engine=self._engine, sampling=cell.job.sampling))

    def _rollout(self, cell: Cell, trajectory: LiveTrajectory) -> Rollout:
        rollout = cell.rollout(trajectory, codec=self.codec)
        if rollout.finish == FinishReason.ERROR:
            self._told.tell(self._address, f"rollout {rollout.id} failed: {rollout.error}")
        elif rollout.error is not None:
            said = f"rollout {rollout.id} is unscorable: {rollout.error}"
            self._told.tell(str(reason_of(rollout)), said)
        return rollout
