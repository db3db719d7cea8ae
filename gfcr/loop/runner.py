"""The event loop: steps the engine, feeds trajectories and resumes the coroutines that wait."""

from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, final

from gfcr.engine.base import Delta
from gfcr.errors import asking
from gfcr.ledger import aside
from gfcr.loop.cell import Begun, Cell
from gfcr.loop.floor import Floor, Origin
from gfcr.loop.jobs import check_fits, check_watched
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.process.phase import NOW
from gfcr.stages import Cap, Evaluator, Generate, Halt, Job, SampleMore, View, Watcher
from gfcr.types import FinishReason, Group, Rollout


@final
class _Every:
    def __contains__(self, item: object) -> bool:
        return True


EVERY: Final[Container[str]] = _Every()
"""Contains every group id."""


@final
class Runner:
    """Makes groups from jobs: all groups of a training run, or those of one evaluation."""

    def __init__(
        self,
        floor: Floor,
        *,
        generate: Generate,
        watchers: Mapping[str, Watcher] = MappingProxyType({}),
        evaluators: Mapping[str, Evaluator] = MappingProxyType({}),
    ) -> None:
        self._floor, self._generate = floor, generate
        self._watchers, self._evaluators = watchers, evaluators
        self._cells: dict[str, Cell] = {}
        self._ready: deque[Cell] = deque()
        """Complete groups that nobody has taken yet."""
        self._begun = 0
        self._cut, self._asides = list[Rollout](), list[Rollout]()

    def start(self, job: Job, *, group_id: str, view: View, repeat: int = 0) -> None:
        """Begins a group, the `repeat`-th one of its prompt in the batch that the view is of.

        Raises:
            TaskError: prompt and longest rollout do not fit the engine's context.
        """
        check_fits(job, max_length=self._floor.engine.max_length)
        origin = Origin(floor=self._floor, group_id=group_id, job=job, view=view, repeat=repeat)
        self._open(self._cell(origin), job)

    def more(self, cell: Cell, *, action: SampleMore) -> None:
        """Samples more rollouts for a complete group."""
        notes = {**cell.origin.job.notes, **action.notes}
        num = action.num_samples
        self._open(cell, replace(cell.origin.job, num_samples=num, resume=(), notes=notes))

    def take(self) -> Cell | None:
        """Takes the group that was completed first; None if there is none."""
        return self._ready.popleft() if self._ready else None

    def advance(self) -> None:
        """Runs one engine step, passes its tokens on and collects results and complete groups.

        Raises:
            EngineError: the engine failed, now or when it was given a request.
            PartError: a Watcher failed.
        """
        traffic, desk = self._floor.traffic, self._floor.desk
        NOW.scores = not len(traffic)
        if len(traffic):
            for trajectory, delta in traffic.step():
                self._take(trajectory, delta)
        elif desk.busy:
            desk.wait()
        self._complete()
        # A part may send requests in `_complete`, and catch the error of an engine that fails then.
        traffic.check()

    def finish(self) -> list[Group]:
        """Runs until all groups are complete; returns them in the order they were begun."""
        while self._cells:
            self.advance()
        cells, self._ready = sorted(self._ready, key=lambda cell: cell.number), deque()
        return [cell.group for cell in cells if cell.group is not None]

    def cut(self, groups: Container[str] = EVERY) -> list[Rollout]:
        """Cuts those of the groups named that are in the making.

        Returns:
            The groups' rollouts, finished ones included, and those that a Watcher aborted.
        """
        self._floor.desk.deliver()
        whole = all(i in groups for i in [*self._cells, *(cell.id for cell in self._ready)])
        if whole:
            # Nothing else is in flight, so one call drops all requests, and a kept engine error.
            self._floor.traffic.clear()
        ready = [cell for cell in self._ready if cell.id in groups]
        unfinished = [cell for cell in self._cells.values() if cell.id in groups]
        made = [r for cell in ready for r in cell.cut()]
        left = [r for cell in unfinished for r in cell.cut()]
        self._asides += [a for cell in unfinished for a in cell.take_asides()]
        for cell in unfinished:
            del self._cells[cell.id]
            self._floor.touched.pop(cell.id, None)
        self._ready = deque(cell for cell in self._ready if cell.id not in groups)
        if whole:
            self._floor.desk.forget()
        return [*made, *self.take_cut(groups), *left]

    def state_dict(self) -> list[Begun]:
        """Returns the groups in flight, as begun; they hold coroutines, which cannot be pickled."""
        cells = sorted([*self._ready, *self._cells.values()], key=lambda cell: cell.number)
        return [cell.begun() for cell in cells]

    def load_state_dict(self, state: Sequence[Begun], *, views: Mapping[str, View]) -> None:
        """Replaces its groups by those of a checkpoint; requests are sent by `Traffic.go_on`.

        Args:
            state: what `state_dict` returned.
            views: the view of the batch that each group is for, by group id.
        """
        self.cut()
        self._asides = [aside for begun in state for aside in begun.asides]
        # Their sessions do not go on, so that nothing else would take these tokens out of flight.
        for each in self._asides:
            self._floor.ledger.settle(each.spans, bin=aside(each.role))
        # Coroutines send requests as soon as they begin: these have to wait for `Traffic.go_on`.
        self._floor.traffic.park()
        for begun in state:
            origin = Origin(
                floor=self._floor,
                group_id=begun.group_id,
                job=begun.job,
                view=views[begun.group_id],
                repeat=begun.repeat,
            )
            cell = self._cells[begun.group_id] = self._cell(origin)
            cell.go_on(begun, generate=self._generate)
            self._cut += cell.take_cut()

    def take_cut(self, groups: Container[str] = EVERY) -> list[Rollout]:
        """Takes the rollouts of these groups that a Watcher aborted."""
        taken = [r for r in self._cut if r.group_id in groups]
        self._cut = [r for r in self._cut if r.group_id not in groups]
        return taken

    def take_asides(self, groups: Container[str] = EVERY) -> list[Rollout]:
        """Takes the side requests of those of these groups that are over."""
        taken = [r for r in self._asides if r.group_id in groups]
        self._asides = [r for r in self._asides if r.group_id not in groups]
        return taken

    # ------------------------------------------------------------ events

    def _cell(self, origin: Origin) -> Cell:
        self._begun += 1
        return Cell(origin, number=self._begun)

    def _open(self, cell: Cell, job: Job) -> None:
        self._cells[cell.id] = cell
        cell.open(job, generate=self._generate)

    def _take(self, trajectory: LiveTrajectory, delta: Delta) -> None:
        floor = self._floor
        # Tokens behind a stop were sampled as well: `stop` settles what is entered here.
        floor.ledger.generated(delta.request_id, num=len(delta.tokens))
        trajectory.extend(delta)
        if trajectory.stop(new=len(delta.tokens)):
            return
        # A stop goes first: the last tokens of a request that reached its cap may complete one.
        if delta.finish is not None:
            trajectory.close_request(delta.finish)
            return
        for name, watcher in self._watchers.items() if not trajectory.role else ():
            with asking(name):
                action = watcher.watch(trajectory, new=len(delta.tokens), view=trajectory.view)
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
        """Delivers verdicts and advances the groups they concern, until nothing changes."""
        while True:
            self._floor.desk.deliver()
            # Coroutines that go on below touch groups again, for the next round of this loop.
            touched = list(self._floor.touched)
            self._floor.touched.clear()
            if not touched:
                return
            for cell in [self._cells[g] for g in touched if g in self._cells]:
                if cell.advance(self._evaluators):
                    self._ready.append(self._cells.pop(cell.id))
                    self._cut += cell.take_cut()
                    self._asides += cell.take_asides()
