"""What sub-stages that ran one after the other should take under a scheduler."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from benchmarks.jigsaw.timeline import play
from gfcr.cluster.jigsaw.machine import Machine
from gfcr.cluster.jigsaw.schedulers import Greedy, LookAhead, Scheduler, Serial, Unmanaged
from gfcr.cluster.jigsaw.substages import Graph, Slowdown, SubStage
from gfcr.launch.lending import Lent

SCHEDULERS: Final[Mapping[str, Scheduler]] = {
    "serial": Serial(),
    "unmanaged": Unmanaged(),
    "greedy": Greedy(),
    "look_ahead": LookAhead(depth=2),
}
_LEAST_S: Final = 1e-3


def predicted(lent: Iterable[Lent], *, scheduler: str, slowdown: Slowdown, parallel: int) -> float:
    """Seconds until the last trial has ended, of which so many are under way at a time."""
    graph = Graph.of(_stages([*lent]))
    machine = Machine(graph=graph, slowdown=slowdown, at_a_time=parallel)
    return play(machine, scheduler=SCHEDULERS[scheduler]).makespan_s


def _stages(lent: Sequence[Lent]) -> Iterable[SubStage]:
    before: dict[str, str] = {}
    for number, each in enumerate(lent):
        name = f"{each.trial}#{number}"
        needs = (before[each.trial],) if each.trial in before else ()
        work_s = max(sum(s.end_s - s.begin_s for s in each.stretches), _LEAST_S)
        yield SubStage(name=name, pipeline=each.trial, kind=each.kind, work_s=work_s, needs=needs)
        before[each.trial] = name
