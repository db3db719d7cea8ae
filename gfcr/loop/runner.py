"""The event loop: steps the engine, feeds trajectories, wakes who works on a group."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import final

from gfcr.engine.base import Delta
from gfcr.errors import asking
from gfcr.ledger import aside
from gfcr.loop.cell import Begun, Cell
from gfcr.loop.floor import Floor, Origin
from gfcr.loop.rules import check_fits, check_watched
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.stages import Cap, Evaluator, Generate, Halt, Job, SampleMore, View, Watcher
from gfcr.types import FinishReason, Group, Rollout


@final
class Runner:
    """Makes groups of jobs: all of a run's, from batch to batch, or those of one evaluation."""

    def __init__(
        self,
        floor: Floor,
        *,
        generate: Generate,
        view: View,
        watchers: Mapping[str, Watcher] = MappingProxyType({}),
        evaluators: Mapping[str, Evaluator] = MappingProxyType({}),
    ) -> None:
        self._floor, self._generate, self._view = floor, generate, view
        self._watchers, self._evaluators = watchers, evaluators
        self._cells: dict[str, Cell] = {}
        self._ready: deque[Cell] = deque()
        """Complete ones that nobody has taken."""
        self._begun = 0
        self._cut, self._asides = list[Rollout](), list[Rollout]()

    @property
    def num_groups(self) -> int:
        """Groups in the making."""
        return len(self._cells) + len(self._ready)

    def start(self, job: Job, *, group_id: str, repeat: int = 0) -> None:
        """Begins a group, the `repeat`-th one of its prompt in this batch.

        Raises:
            TaskError: prompt and longest rollout do not fit the engine's context.
        """
        check_fits(job, max_length=self._floor.engine.max_length)
        origin = Origin(floor=self._floor, group_id=group_id, job=job, repeat=repeat)
        self._open(self._cell(origin), job)

    def more(self, cell: Cell, *, action: SampleMore) -> None:
        """Adds samples to a complete group."""
        notes = {**cell.origin.job.notes, **action.notes}
        num = action.num_samples
        self._open(cell, replace(cell.origin.job, num_samples=num, resume=(), notes=notes))

    def take(self) -> Cell | None:
        """Takes a complete group, in the order in which they became so."""
        return self._ready.popleft() if self._ready else None

    def advance(self) -> None:
        """Runs the engine once, and hands out and takes in what has come of it.

        Raises:
            EngineError: the engine failed, now or when it was given a request.
            PartError: a Watcher failed.
        """
        traffic, desk = self._floor.traffic, self._floor.desk
        if len(traffic):
            version = self._floor.engine.version
            for trajectory, delta in traffic.step():
                self._take(trajectory, delta, version=version)
        elif desk.busy:
            desk.wait()
        self._complete()
        traffic.check()

    def finish(self) -> list[Group]:
        """Runs until all groups are complete; returns them in the order they were begun."""
        while self._cells:
            self.advance()
        cells, self._ready = sorted(self._ready, key=lambda cell: cell.number), deque()
        return [cell.group for cell in cells if cell.group is not None]

    def cut(self) -> list[Rollout]:
        """Cuts every group in the making; returns their rollouts, finished ones included."""
        self._floor.desk.deliver()
        self._floor.traffic.clear()
        ready = [r for cell in self._ready for r in cell.cut()]
        unfinished = [r for cell in self._cells.values() for r in cell.cut()]
        self._asides += [a for cell in self._cells.values() for a in cell.take_asides()]
        self._floor.desk.forget()
        for held in (self._cells, self._ready, self._floor.touched):
            held.clear()
        return [*ready, *self.take_cut(), *unfinished]

    def state_dict(self) -> list[Begun]:
        """The groups in flight, in the order they were begun: coroutines do not pickle."""
        cells = sorted([*self._ready, *self._cells.values()], key=lambda cell: cell.number)
        return [cell.begun() for cell in cells]

    def load_state_dict(self, state: Sequence[Begun]) -> None:
        """Goes on with the groups in place of its own; nothing is asked before `Traffic.go_on`."""
        self.cut()
        self._asides = [aside for begun in state for aside in begun.asides]
        for each in self._asides:
            self._floor.ledger.settle(each.spans, bin=aside(each.role))
        self._floor.traffic.park()
        for begun in state:
            origin = Origin(
                floor=self._floor, group_id=begun.group_id, job=begun.job, repeat=begun.repeat
            )
            cell = self._cells[begun.group_id] = self._cell(origin)
            cell.go_on(begun, generate=self._generate)
            self._cut += cell.take_cut()

    def take_cut(self) -> list[Rollout]:
        """Takes the trajectories that a Watcher aborted, out of their groups."""
        cut, self._cut = self._cut, []
        return cut

    def take_asides(self) -> list[Rollout]:
        """Takes what parts asked on the side for groups that are complete or were cut."""
        taken, self._asides = self._asides, []
        return taken

    # ------------------------------------------------------------ events

    def _cell(self, origin: Origin) -> Cell:
        self._begun += 1
        return Cell(origin, number=self._begun, view=self._view)

    def _open(self, cell: Cell, job: Job) -> None:
        self._cells[cell.id] = cell
        cell.open(job, generate=self._generate)

    def _take(self, trajectory: LiveTrajectory, delta: Delta, *, version: int) -> None:
        floor = self._floor
        floor.ledger.generated(delta.request_id, num=len(delta.tokens))
        trajectory.extend(delta, version=version)
        if delta.finish is not None:
            trajectory.close_request(delta.finish)
            return
        for name, watcher in self._watchers.items() if not trajectory.role else ():
            with asking(name):
                action = watcher.watch(trajectory, new=len(delta.tokens), view=self._view)
            check_watched(action, by=name)
            if isinstance(action, Cap):
                most = trajectory.limit(action.max_tokens)
                floor.engine.limit(delta.request_id, max_tokens=most)
            elif action is not None:
                halted = isinstance(action, Halt)
                finish = FinishReason.HALTED if halted else FinishReason.ABORTED
                trajectory.halt(f"{name}: {action.reason}", finish=finish)
                return

    def _complete(self) -> None:
        """Hands out verdicts and wakes what they concern, until nothing more comes of it."""
        while True:
            self._floor.desk.deliver()
            touched = list(self._floor.touched)
            self._floor.touched.clear()
            if not touched:
                return
            for cell in [self._cells[g] for g in touched if g in self._cells]:
                if cell.advance(self._evaluators):
                    self._ready.append(self._cells.pop(cell.id))
                    self._cut += cell.take_cut()
                    self._asides += cell.take_asides()
