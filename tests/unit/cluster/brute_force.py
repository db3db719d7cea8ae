"""The least makespan of few sub-stages, found by trying all courses: an oracle of schedulers."""

from collections.abc import Callable
from typing import TypeAlias, final

from gfcr.cluster.jigsaw.machine import Action, Machine, State
from gfcr.cluster.jigsaw.substages import Slowdown

_Best: TypeAlias = tuple[float, Action | None]


@final
class BruteForce:
    """The scheduler of the least makespan, for a handful of sub-stages."""

    def choose(self, machine: Machine, *, state: State) -> Action:
        action = _searcher(machine)(state)[1]
        assert action is not None
        return action


def _searcher(machine: Machine) -> Callable[[State], _Best]:
    known: dict[tuple[object, ...], _Best] = {}

    def best(state: State) -> _Best:
        """Returns the least seconds to the end, and the first action of that course."""
        if not state.left_s:
            return 0.0, None
        key = _key(state)
        if (found := known.get(key)) is None:
            tried: list[_Best] = []
            for action in machine.actions(state):
                then = machine.advance(state, action=action)
                tried.append((then.now_s - state.now_s + best(then)[0], action))
            found = known[key] = min(tried, key=lambda each: each[0])
        return found

    return best


def _key(state: State) -> tuple[object, ...]:
    """Equal for states that can continue in the same ways, whatever the time."""
    left = tuple(sorted((name, round(s, 6)) for name, s in state.left_s.items()))
    return left, tuple(sorted(state.running)), state.merged


def best_rate(slowdown: Slowdown) -> float:
    """Most seconds of work alone that any two sub-stages together do per second."""
    pairs = ((a, b, share) for a, b, share in slowdown.times)
    both = [
        slowdown.pair(a, other=b, share=share)
        for a, b, share in pairs
        if share in slowdown.shares(a, other=b)
    ]
    return max([1.0, *(1 / ours + 1 / theirs for ours, theirs in both)])
