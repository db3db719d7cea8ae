"""The course of a machine's sub-stages under a scheduler, from begin to end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from gfcr.cluster.jigsaw.machine import Action, Machine
from gfcr.cluster.jigsaw.schedulers import Scheduler


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time in which the same sub-stages run."""

    begin_s: float
    end_s: float
    action: Action


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The course of a run, as stretches of time."""

    spans: tuple[Span, ...]
    ended_s: Mapping[str, float]
    """End of each pipeline, in seconds."""

    @property
    def makespan_s(self) -> float:
        """End of the last pipeline, in seconds."""
        return max(self.ended_s.values())


def play(machine: Machine, *, scheduler: Scheduler) -> Timeline:
    """Runs all pipelines to their end under a scheduler."""
    state, spans, ended = machine.start(), list[Span](), dict[str, float]()
    while state.left_s:
        action = scheduler.choose(machine, state=state)
        then = machine.advance(state, action=action)
        spans.append(Span(begin_s=state.now_s, end_s=then.now_s, action=action))
        for name in state.left_s.keys() - then.left_s.keys():
            ended[machine.graph.stages[name].pipeline] = then.now_s
        state = then
    return Timeline(spans=tuple(spans), ended_s=ended)
