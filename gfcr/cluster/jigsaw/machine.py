"""The machine that sub-stages share: what may run next, and when the first of it ends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, final

from gfcr.cluster.jigsaw.substages import Graph, Share, Slowdown, SubStage
from gfcr.values.ranges import Count

_ROUNDING_S: Final = 1e-9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One sub-stage or two that share the machine, until the first of them ends."""

    stages: tuple[str, ...]
    share: Share = None
    """Share of the machine that the first of two has."""
    merge: frozenset[str] = frozenset()
    """Sub-stages among these whose tail is merged now."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The progress of all pipelines at one time."""

    now_s: float
    left_s: Mapping[str, float]
    """Remaining seconds, if run alone, of each sub-stage that has not ended."""
    running: tuple[str, ...] = ()
    """Sub-stages that have begun and not ended, which cannot be interrupted."""
    merged: frozenset[str] = frozenset()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Runs one sub-stage or two at a time; one that has begun is never interrupted."""

    graph: Graph
    slowdown: Slowdown
    at_a_time: Count = 1_000_000
    """Pipelines that have begun and not ended; the next one begins when one ends."""

    def start(self) -> State:
        """Returns the state in which nothing has begun."""
        left = {name: stage.work_s for name, stage in self.graph.stages.items()}
        return State(now_s=0.0, left_s=left)

    def ready(self, state: State) -> list[str]:
        """Returns the sub-stages that run or may begin, in the graph's order."""
        stages = self.graph.stages
        left = [stage for name, stage in stages.items() if name in state.left_s]
        unended = {stage.pipeline for stage in left}
        open_ = [name for name in self.graph.pipelines if name in unended][: self.at_a_time]
        return [
            stage.name
            for stage in left
            if stage.pipeline in open_ and not any(need in state.left_s for need in stage.needs)
        ]

    def kind(self, name: str, *, state: State) -> str:
        """Returns the present kind of a sub-stage, by which the slowdown table knows it."""
        stage = self.graph.stages[name]
        return stage.merged.kind if stage.merged and name in state.merged else stage.kind

    def actions(self, state: State) -> Iterator[Action]:
        """Yields all actions that are possible now; each continues what is running."""
        ready = self.ready(state)
        for size in (1, 2):
            for stages in combinations(ready, size):
                if set(state.running) <= set(stages):
                    yield from self._variants(stages, state=state)

    def _variants(self, stages: tuple[str, ...], *, state: State) -> Iterator[Action]:
        tails = [n for n in stages if self.graph.stages[n].merged and n not in state.merged]
        for count in range(len(tails) + 1):
            for merge in combinations(tails, count):
                then = replace(state, merged=state.merged | {*merge}) if merge else state
                for share in self._shares(stages, state=then):
                    yield Action(stages=stages, share=share, merge=frozenset(merge))

    def _shares(self, stages: tuple[str, ...], *, state: State) -> list[Share]:
        if len(stages) == 1:
            return [None]
        first, second = (self.kind(name, state=state) for name in stages)
        return [*self.slowdown.shares(first, other=second)]

    def rates(self, action: Action, *, state: State) -> Mapping[str, float]:
        """Returns how many seconds of its work alone each sub-stage does per second."""
        if len(action.stages) == 1:
            return {action.stages[0]: 1.0}
        then = replace(state, merged=state.merged | action.merge) if action.merge else state
        first, second = (self.kind(name, state=then) for name in action.stages)
        factors = self.slowdown.pair(first, other=second, share=action.share)
        return {n: 1 / factor for n, factor in zip(action.stages, factors, strict=True)}

    def advance(self, state: State, *, action: Action) -> State:
        """Returns the state after the first of the running sub-stages has ended."""
        left = dict(state.left_s)
        for name in action.merge:
            left[name] = self.merged_s(self.graph.stages[name], left_s=left[name])
        rates = self.rates(action, state=state)
        took_s = min(left[name] / rate for name, rate in rates.items())
        for name, rate in rates.items():
            left[name] -= took_s * rate
        running = tuple(name for name in action.stages if left[name] > _ROUNDING_S)
        for name in action.stages:
            if name not in running:
                del left[name]
        return State(
            now_s=state.now_s + took_s,
            left_s=left,
            running=running,
            merged=state.merged | action.merge,
        )

    @staticmethod
    def merged_s(stage: SubStage, *, left_s: float) -> float:
        """Returns the seconds of work that remain of a sub-stage once it is merged."""
        assert stage.merged is not None
        return left_s * stage.merged.work_s / stage.work_s + stage.merged.recompute_s
