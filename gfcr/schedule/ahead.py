"""Batches made ahead of the trainer, in a thread of their own or in turn with it."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from gfcr.engine.base import Weights
from gfcr.errors import restoring
from gfcr.schedule.base import Schedule, Standing, Work
from gfcr.types import Bools, RolloutBatch


@final
class Ahead:
    """The `train.base.BatchSource` of a trainer for which batches are made ahead.

    The trainer's thread only leaves things here and waits. All work on the run is done by one
    thread: one of its own, or the trainer's whenever that waits.
    """

    def __init__(self, work: Work, *, schedule: Schedule, last: int, beside: bool) -> None:
        """Starts nothing yet.

        Args:
            work: the run whose batches are made.
            schedule: decides when batches are begun and policies loaded.
            last: number of updates that the trainer makes in all.
            beside: whether the work has a thread of its own.
        """
        self._work, self._schedule, self._last = work, schedule, last
        self._beside = beside
        self._changed = threading.Condition()
        """Lock of all fields below that both threads change."""
        self._told: deque[tuple[int, Callable[[], None]]] = deque()
        """Reports of the trainer on its updates, with the policy version that each update made."""
        self._weights: deque[tuple[int, Weights]] = deque()
        """Policies to be synced to the engine. The last may still be the trainer's own tensors."""
        self._is_taking = False
        """Whether the first of these policies is being synced now."""
        self._ready: deque[RolloutBatch] = deque()
        self._asked: list[dict[str, Any]] | None = None
        """List in which the trainer waits for the state; None if it does not."""
        self._ended = self._is_over = self._closing = False
        """Whether no batch may be begun; whether none is open; whether the thread must end."""
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._at = Standing(first=-1, loaded=-1, closed=0, opened={})
        self._begun = 0
        """Number of batches begun."""
        self._now = -1
        """Update that the trainer is at."""
        self._waited_s = self._aside_s = 0.0
        """Seconds that the trainer waited for its last batch; seconds of all evaluations."""

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        """Ends the thread; after training that ended well the engine gets the last policy."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        if error is None:
            self._check()
            self._is_over = True
            while self._catch_up():
                pass

    # ------------------------------------------------------------ for the trainer

    def sync(self, weights: Weights, *, version: int) -> None:
        """See `BatchSource.sync`. The policy can be synced until `next_batch` returns."""
        with self._changed:
            self._weights.append((version, weights))
            if self._at.first < 0:
                self._at = replace(self._at, first=version)
            self._changed.notify_all()

    def next_batch(self) -> RolloutBatch | None:
        began, aside = time.perf_counter(), self._aside_s
        self._await(lambda: bool(self._ready) or self._is_over or self._work.paused())
        # The trainer changes its weights after this: they must be synced, or copied, before.
        self._await(lambda: not self._weights or self._is_late(), then=self._keep_weights)
        self._waited_s = max(0.0, time.perf_counter() - began - (self._aside_s - aside))
        with self._changed:
            if not self._ready or self._work.paused():
                return None
            batch = self._ready.popleft()
            self._now = batch.step
        return batch

    def masked(self, kept: Mapping[str, Bools]) -> None:
        update = self._now
        self._tell(lambda: self._work.masked(kept, update=update), version=update + 1)

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        told = {**metrics, "exposed_s": self._waited_s, "schedule/ready": float(len(self._ready))}
        self._tell(lambda: self._work.updated(step=step, metrics=told), version=step)

    def state_dict(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        with self._changed:
            # Whoever works gives the state, between two pieces of work, so that none is half done.
            self._asked = found
            self._changed.notify_all()
        self._await(lambda: bool(found))
        return found[0]

    @restoring("state")
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._work.load_state_dict(state["work"])
        self._begun = state["begun"]
        self._ready = deque(state["ready"])
        for batch in self._ready:
            self._work.hold(batch)
        self._look()

    def _tell(self, told: Callable[[], None], *, version: int) -> None:
        with self._changed:
            self._told.append((version, told))
            self._changed.notify_all()

    def _await(self, ready: Callable[[], bool], *, then: Callable[[], None] | None = None) -> None:
        """Waits until something is `ready`, doing the work meanwhile if there is no thread for it.

        `then` is called before the other thread can do anything more.
        """
        if not self._beside:
            while self._go_on():
                pass
        elif self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gfcr-ahead", daemon=True)
            self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: ready() or self._error is not None)
            self._check()
            if then is not None:
                then()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _is_late(self) -> bool:
        """Returns whether the engine gets the newest policy only after the batch being made."""
        return not self._is_taking and not self._is_time(self._weights[-1][0])

    def _keep_weights(self) -> None:
        """Copies the newest policy, which the trainer is about to change."""
        if self._weights:
            version, weights = self._weights.pop()
            copied = [(name, tensor.detach().clone()) for name, tensor in weights]
            self._weights.append((version, copied))

    # ------------------------------------------------------------ the work

    def _run(self) -> None:
        """Works until it is told to end; the trainer raises what goes wrong here."""
        try:
            while not self._closing:
                if not self._go_on():
                    with self._changed:
                        self._changed.wait_for(self._is_asked)
        except BaseException as error:  # the trainer raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _is_asked(self) -> bool:
        return self._closing or self._asked is not None or self._hears() or self._takes()

    def _go_on(self) -> bool:
        """Does the next piece of work; False if the trainer has to make progress first."""
        # It is read first, so that the state has what the trainer told before it asked.
        asked = self._asked
        if self._catch_up():
            return True
        if self._schedule.waits:
            return self._turn() or self._answer(asked)
        return self._answer(asked) or self._turn()

    def _catch_up(self) -> bool:
        """Handles the trainer's next report or policy, if the schedule allows it now."""
        with self._changed:
            # In one look: a report that comes in between is heard before the policy behind it.
            told = self._told.popleft()[1] if self._hears() else None
            self._is_taking = taking = told is None and self._takes()
        if told is not None:
            told()
        elif taking:
            self._load(*self._weights[0])
        return told is not None or taking

    def _hears(self) -> bool:
        """Returns whether the next report is due: its update precedes the next policy's sync."""
        return self._is_next(self._told, before=self._weights)

    def _takes(self) -> bool:
        return self._is_next(self._weights, before=())

    def _is_next(
        self, held: Sequence[tuple[int, object]], *, before: Sequence[tuple[int, object]]
    ) -> bool:
        if not held or (before and before[0][0] < held[0][0]):
            return False
        return self._is_time(held[0][0])

    def _is_time(self, version: int) -> bool:
        """Returns whether the reports and the policy of this version are due, by the schedule."""
        return self._is_over or self._schedule.loads(version, at=self._at)

    def _load(self, version: int, weights: Weights) -> None:
        # The lock is not held: this takes long, and the trainer may leave reports meanwhile.
        self._work.sync(weights, version=version)
        if version < self._last:
            self._check_end()
        with self._changed:
            self._weights.popleft()
            self._is_taking = False
            self._at = replace(self._at, loaded=version)
            self._changed.notify_all()
        self._look()

    def _check_end(self) -> None:
        began = time.perf_counter()
        self._ended = not self._work.goes_on() or self._ended  # evaluates what is loaded later, too
        self._aside_s += time.perf_counter() - began

    def _turn(self) -> bool:
        """Works on batches; False if that needs another policy, or no batch is left to make."""
        at, schedule, pipeline = self._at, self._schedule, self._work.pipeline
        if dropped := schedule.drops(at):
            pipeline.making.drop(dropped[0])
        elif (step := schedule.closes(at)) is not None:
            self._close(step, update=at.closed)
        elif self._may_open(at):
            self._check_end()
            if self._may_open(at):
                pipeline.making.open(self._begun, update=at.closed + len(at.opened))
                self._begun += 1
        elif len(at.done) < len(at.opened):
            pipeline.making.turn()
        else:
            return False
        self._look()
        return True

    def _may_open(self, at: Standing) -> bool:
        parts = self._work.pipeline.strategy.parts.values()
        # What such a part remembers is of one batch, and a second one would mix with it.
        if at.opened and any(part.one_batch for part in parts):
            return False
        left = self._last - at.closed - len(at.opened)
        # A pause leaves what the trainer's own policy makes: those before it are gone after that.
        if self._work.paused() and (at.loaded > self._now or not self._schedule.waits):
            return False
        return at.loaded >= 0 and left > 0 and not self._ended and self._schedule.opens(at)

    def _close(self, step: int, *, update: int) -> None:
        batch = self._work.pipeline.close_batch(step, update=update, version=update)
        self._work.made(batch)
        with self._changed:
            # Its groups are written down: what is learned from is in the samples.
            self._ready.append(replace(batch, groups=(), aborted=(), asides=()))

    def _look(self) -> None:
        """Updates the standing, which the trainer's thread reads too."""
        pipeline = self._work.pipeline
        opened = pipeline.making.opened
        done = [step for step, collector in opened.items() if collector.done]
        new = replace(
            self._at,
            closed=pipeline.step,
            opened={step: collector.version for step, collector in opened.items()},
            done=done,
        )
        over = not opened and (self._ended or new.closed >= self._last)
        with self._changed:
            if (new, over) != (self._at, self._is_over):
                self._at, self._is_over = new, over
                self._changed.notify_all()

    def _answer(self, asked: list[dict[str, Any]] | None) -> bool:
        """Gives the state to a trainer that waits for it; False if none does."""
        if asked is None:
            return False
        ready, begun = list(self._ready), self._begun
        state = {"work": self._work.state_dict(), "ready": ready, "begun": begun}
        with self._changed:
            asked.append(state)
            self._asked = None
            self._changed.notify_all()
        return True
