"""What all structural gates share: what becomes of a rollout that fails, and how it is counted."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gfcr.errors import ConfigError
from gfcr.filter._shaping import too_late
from gfcr.part import Recipe
from gfcr.stages import Filter, View
from gfcr.types import Group, Rollout, Signal
from gfcr.values.ranges import Finite


@dataclass(kw_only=True)
class Gate(Filter):
    """A condition on each rollout alone. Those rejected before are not looked at again.

    The verifier's own reward stays in the rollout whatever the gate does. `group/NAME_failed` is
    the share of a group's rollouts that failed, NAME being the gate's.
    """

    gives_advantages = False

    failing: Literal["reject", "set", "add"] = "reject"
    """`reject` leaves a failing rollout out of the update; `set` makes `reward` its shaped reward;
    `add` adds `reward` to it."""
    reward: Finite = -1.0
    """Of a failing rollout, for `set` and `add`."""

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return None if self.failing == "reject" else too_late(strategy, at=at)

    @abstractmethod
    def passes(self, rollout: Rollout, *, view: View) -> bool:
        """Returns whether a rollout meets the condition."""

    def apply(self, group: Group, *, view: View) -> Group:
        looked_at: list[int] = np.flatnonzero(group.kept_N).tolist()
        if not looked_at:
            return group
        failed = [i for i in looked_at if not self.passes(group.rollouts[i], view=view)]
        name = type(self).__module__.rpartition(".")[2]
        group = group.with_values(**{f"{name}_failed": len(failed) / len(looked_at)})
        if self.failing == "reject":
            return group.reject_rollouts(failed, reason=name)
        signals = list(group.signals)
        for i in failed:
            signals[i] = self._shaped(signals[i])
        return group.with_signals(signals)

    def _shaped(self, signal: Signal) -> Signal:
        before = signal.reward if self.failing == "add" and signal.reward is not None else 0.0
        return replace(signal, reward=before + self.reward)


def check_order(low: float, high: float, *, keys: tuple[str, str]) -> None:
    """Refuses two bounds in the wrong order.

    Raises:
        ConfigError: the first exceeds the second.
    """
    if low > high:
        raise ConfigError(f"{keys[0]}={low} exceeds {keys[1]}={high}: swap them.")
