"""FR3E's modulation: what the value gained on the way is taught less."""

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from gfcr.stages import Filter, View
from gfcr.types import Floats, Group, Rollout, Signal


@final
@dataclass(kw_only=True)
class ModulatedAdvantage(Filter):
    """Multiplies advantages behind each fork of a base rollout by exp(-(V_j - V_(j-1))).

    S_1, S_2, ... are the places where rollouts forked off a base rollout, which has no parent, in
    its order. V_j is the mean reward of those that forked off at S_j, and V_0 that of the whole
    group. Tokens of the base and of its branches between two places, or behind the last one before
    a branch left, are multiplied by the factor of the place they follow; tokens before S_1 by 1.
    Where the value rises the update is smaller, so that exploration goes on; else it is larger.

    Put it behind the advantage map. Hurts where V_j is the mean of few rollouts: the factor is
    between 0.37 and 2.7 by chance.
    """

    paper: ClassVar[str] = "2507.07017"
    cell: ClassVar[str] = "F5.4"
    origin: ClassVar[str] = "S"
    gives_advantages = False
    tokenwise = True

    @property
    def takes_shares(self) -> bool:
        return True

    def apply(self, group: Group, *, view: View) -> Group:
        mean = float(group.rewards_N[group.kept_N].mean()) if group.kept_N.any() else 0.0
        factors = {
            rollout.id: _factors(rollout.id, group=group, mean=mean)
            for rollout in group.rollouts
            if rollout.parent is None
        }
        every = [a for own in factors.values() for a in own.values()]
        signals = [
            _modulated(r, s, factors=factors.get(r.parent or r.id, {}))
            for r, s in zip(group.rollouts, group.signals, strict=True)
        ]
        value = float(np.mean(every)) if every else 1.0
        return group.with_signals(signals).with_values(modulation=value)


def _factors(base: str, *, group: Group, mean: float) -> dict[int, float]:
    """Place -> factor, in the order of the base rollout."""
    found: dict[int, list[float]] = {}
    for rollout, reward, kept in zip(group.rollouts, group.rewards_N, group.kept_N, strict=True):
        if rollout.parent == base and kept:
            found.setdefault(rollout.fork_at, []).append(float(reward))
    places, before = dict[int, float](), mean
    for place in sorted(found):
        value = float(np.mean(found[place]))
        places[place], before = float(np.exp(before - value)), value
    return places


def _modulated(rollout: Rollout, signal: Signal, *, factors: dict[int, float]) -> Signal:
    if signal.advantage is None:
        return signal
    last = rollout.fork_at if rollout.parent else len(rollout)
    factor_T: Floats = np.ones(len(rollout), np.float32)
    for place, factor in factors.items():
        if place <= last:
            factor_T[place:] = factor
    return replace(signal, advantage=signal.advantage * factor_T)
