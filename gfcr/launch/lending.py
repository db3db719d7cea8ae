"""Lending of cores to trials for their sub-stages, as a JigsawRL scheduler decides."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

from gfcr.cluster.jigsaw.machine import Action, Machine
from gfcr.cluster.jigsaw.schedulers import Scheduler
from gfcr.cluster.jigsaw.substages import Graph, Share, Slowdown, SubStage
from gfcr.process.lease import KINDS, Kind, Lease

NEXT: Final[Mapping[Kind, Kind]] = {
    "start": "evaluate",
    "evaluate": "decode",
    "decode": "tail",
    "tail": "train",
    "train": "decode",
}
"""The most likely next sub-stage of a trial, by its present one."""
HALF: Final = 1.8
"""Factor by which the demo's generation and training took longer on one of two cores."""
_AHEAD: Final = 3
"""Sub-stages of each trial that are planned beyond its present one."""
_UNKNOWN_S: Final = 1.0
"""Assumed seconds of a kind of sub-stage before any has ended."""
_LEAST_S: Final = 0.02
_RECENT: Final = 0.5
"""Weight of the latest sub-stage in the moving average of its kind's length."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a sub-stage during which the same other one ran beside it."""

    begin_s: float
    end_s: float
    other: Kind | None
    """Kind of sub-stage that ran beside it; None if it ran alone."""
    share: Share
    """Share of the cores that it had."""


@final
@dataclass(kw_only=True)
class Lent:
    """A sub-stage that was, or is, lent cores."""

    trial: str
    kind: Kind
    stretches: list[Stretch] = field(default_factory=list[Stretch])


@final
@dataclass(kw_only=True)
class _Row:
    trial: str
    lease: Lease
    now: Lent | None = None
    """Its present sub-stage; None while it waits for cores."""
    seen: int = 0
    """Number of its last request for cores that was seen; 0 before the first."""
    done_s: float = 0.0
    """Seconds of work alone done of `now`."""
    other: Kind | None = None
    share: Share = None
    since_s: float = 0.0
    lengths: dict[Kind, float] = field(default_factory=dict[Kind, float])


@final
class Lender:
    """Lends the cores of this machine to trials; call `poll` often."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        slowdown: Slowdown,
        cores: Sequence[int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts with no trials.

        Args:
            scheduler: decides what runs together.
            slowdown: factors of each pair of kinds, at each share.
            cores: numbers of the machine's cores.
            clock: time in seconds.
        """
        self._scheduler, self._slowdown = scheduler, slowdown
        self._cores, self._clock = [*cores], clock
        self._rows: dict[str, _Row] = {}
        self.lent: list[Lent] = []
        """All sub-stages that were lent cores, in the order in which they began."""

    def begin(self, trial: str, *, lease: Lease) -> None:
        """Adds a trial, which will ask for cores by its lease."""
        self._rows[trial] = _Row(trial=trial, lease=lease)

    def end(self, trial: str) -> None:
        """Removes a trial whose process has ended."""
        self._finish(self._rows[trial])
        del self._rows[trial]
        self._decide()

    def release(self) -> None:
        """Lends all cores to all trials, so that each reaches a point where it can end."""
        for row in self._rows.values():
            row.lease.grant(self._cores)

    def poll(self) -> None:
        """Looks for new requests, and decides anew if there are any."""
        asking = [row for row in self._rows.values() if row.lease.number > row.seen]
        for row in asking:
            self._finish(row)
            row.seen = row.lease.number
        if asking:
            self._decide()

    def _finish(self, row: _Row) -> None:
        """Ends a trial's present sub-stage, and learns how long its kind takes."""
        self._record()
        if (ended := row.now) is not None:
            known = row.lengths.get(ended.kind, row.done_s)
            row.lengths[ended.kind] = known + _RECENT * (row.done_s - known)
        row.now, row.done_s = None, 0.0

    def _record(self) -> None:
        """Records what has run since the last decision."""
        now = self._clock()
        for row in self._rows.values():
            if row.now is None:
                continue
            took_s = now - row.since_s
            row.now.stretches.append(
                Stretch(begin_s=row.since_s, end_s=now, other=row.other, share=row.share)
            )
            pair = row.other and (row.now.kind, row.other, row.share)
            row.done_s += took_s / (self._slowdown.times[pair] if pair else 1.0)
            row.since_s = now

    def _decide(self) -> None:
        self._record()
        machine = Machine(graph=self._graph(), slowdown=self._slowdown)
        first = {_name(trial, 0): row for trial, row in self._rows.items() if row.seen}
        running = tuple(name for name, row in first.items() if row.now is not None)
        if not first:
            return
        state = replace(machine.start(), running=running)
        self._lend(self._scheduler.choose(machine, state=state), first=first)

    def _graph(self) -> Graph:
        stages: list[SubStage] = []
        for trial, row in self._rows.items():
            if not row.seen:
                continue
            kind, done_s, needs = row.lease.does, row.done_s, tuple[str, ...]()
            for number in range(_AHEAD + 1):
                # A sub-stage that takes longer than foreseen is not over: some work is left.
                work_s = max(self._length_s(row, kind) - done_s, _LEAST_S)
                name = _name(trial, number)
                stages.append(
                    SubStage(name=name, pipeline=trial, kind=kind, work_s=work_s, needs=needs)
                )
                kind, done_s, needs = NEXT[kind], 0.0, (name,)
        return Graph.of(stages)

    def _length_s(self, row: _Row, kind: Kind) -> float:
        others = [r.lengths[kind] for r in self._rows.values() if kind in r.lengths]
        return row.lengths.get(kind, max(others, default=_UNKNOWN_S))

    def _lend(self, action: Action, *, first: Mapping[str, _Row]) -> None:
        now = self._clock()
        chosen = [first[name] for name in action.stages]
        kinds: list[Kind] = [row.lease.does for row in chosen]
        for place, (row, cores, share) in enumerate(
            zip(chosen, *self._divided(action), strict=True)
        ):
            if row.now is None:
                row.now = Lent(trial=row.trial, kind=kinds[place])
                self.lent.append(row.now)
            row.other = kinds[1 - place] if len(chosen) == 2 else None
            row.share, row.since_s = share, now
            row.lease.grant(cores)

    def _divided(self, action: Action) -> tuple[Sequence[Sequence[int]], Sequence[Share]]:
        """Returns the cores and the share of each sub-stage of an action."""
        if len(action.stages) == 1 or action.share is None:
            return [self._cores] * len(action.stages), [None] * len(action.stages)
        cut = min(max(round(action.share * len(self._cores)), 1), len(self._cores) - 1)
        return [self._cores[:cut], self._cores[cut:]], [action.share, round(1 - action.share, 9)]


def even() -> Slowdown:
    """Returns a table of equal slowdowns, for use before any is measured."""
    shares: dict[Share, float] = {0.5: HALF, None: 2.0}
    return Slowdown(times={(a, b, s): t for a in KINDS for b in KINDS for s, t in shares.items()})


def _name(trial: str, number: int) -> str:
    return f"{trial}#{number}"
