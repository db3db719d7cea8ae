"""Schedulers that decide what runs together: serial, unmanaged, greedy, look-ahead."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, final

from gfcr.cluster.jigsaw.machine import Action, Machine, State
from gfcr.values.ranges import Checked, Count


class Scheduler(Protocol):
    """Chooses what runs until the next sub-stage ends."""

    @abstractmethod
    def choose(self, machine: Machine, *, state: State) -> Action:
        """Returns one of the machine's possible actions."""


@final
class Serial(Scheduler):
    """Runs one pipeline after the other."""

    def choose(self, machine: Machine, *, state: State) -> Action:
        order = machine.graph.pipelines
        ready = machine.ready(state)
        first = min(ready, key=lambda n: order.index(machine.graph.stages[n].pipeline))
        return Action(stages=(first,))


@final
class Unmanaged(Scheduler):
    """Runs two pipelines side by side, whatever their stages; a third begins when one ends."""

    def choose(self, machine: Machine, *, state: State) -> Action:
        order, stages = machine.graph.pipelines, machine.graph.stages
        first: dict[str, str] = {}
        # What has begun goes on; a third may have before one that comes first in order is ready.
        for name in (*state.running, *machine.ready(state)):
            first.setdefault(stages[name].pipeline, name)
        turns = sorted(first, key=lambda p: (first[p] not in state.running, order.index(p)))
        return Action(stages=tuple(first[pipeline] for pipeline in turns[:2]))


@final
class Greedy(Scheduler):
    """Maximises the work per second now; among equals, prefers long paths of work to follow."""

    def choose(self, machine: Machine, *, state: State) -> Action:
        paths = machine.graph.paths_s

        def worth(action: Action) -> tuple[float, float]:
            work = sum(machine.rates(action, state=state).values())
            lost = sum(_lost(machine, name, state=state) for name in action.merge)
            return round(work - lost, 9), sum(paths[name] for name in action.stages)

        return max(machine.actions(state), key=worth)


def _lost(machine: Machine, name: str, *, state: State) -> float:
    """Returns the work that merging adds, as a share of the work that is left."""
    left_s = state.left_s[name]
    return machine.merged_s(machine.graph.stages[name], left_s=left_s) / left_s - 1


@final
@dataclass(frozen=True, kw_only=True)
class LookAhead(Checked, Scheduler):
    """Tries every sequence of `depth` decisions, finished greedily, and begins the best one.

    Never worse than greedy: a sequence that is begun stays among those tried next, and so does
    greedy's own decision. What the paper looks at, and how far, is in no text that we have.
    """

    depth: Count = 3

    def choose(self, machine: Machine, *, state: State) -> Action:
        greedy = Greedy()

        def finish_s(state: State, *, depth: int) -> float:
            if not state.left_s:
                return state.now_s
            if depth == 0:
                return finish_s(step(state, greedy.choose(machine, state=state)), depth=0)
            return min(finish_s(step(state, a), depth=depth - 1) for a in machine.actions(state))

        def step(state: State, action: Action) -> State:
            return machine.advance(state, action=action)

        within = self.depth - 1
        return min(machine.actions(state), key=lambda a: finish_s(step(state, a), depth=within))
