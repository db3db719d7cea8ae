"""Advantages of steps: what each step adds to the value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.filter._scores import unscored
from gfcr.part import Recipe
from gfcr.stages import Filter, View
from gfcr.types import Floats, Group, Signal


@final
@dataclass(kw_only=True)
class StepAdvantage(Filter):
    """Gives all tokens of a step the difference that the step makes.

    With V(k) the value at the beginning of step k, of K steps, and r the reward at the end:
        difference   A_k = V(k + 1) - V(k),  A_K = r - V(K)     (VinePPO, undiscounted)
        outcome      A_k = r - V(k)

    Reads the scores `value` and `step`, which the `step_values` control gives. The first sums to
    r - V(1) over the steps of a rollout.

    Hurts where values are noisy: an error of V(k) is in two steps' advantages, with both signs.
    """

    paper: ClassVar[str] = "2410.01679"
    cell: ClassVar[str] = "F5.4"
    origin: ClassVar[str] = "P"
    gives_advantages = True
    tokenwise = True

    kind: Literal["difference", "outcome"] = "difference"

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        why = unscored(strategy, "value", "step", by="step_values")
        return why or super().clash(strategy, at=at)

    def apply(self, group: Group, *, view: View) -> Group:
        kept = group.kept_N
        pairs = zip(group.signals, group.rollouts, kept, strict=True)
        advantages = [self._advantage(s, r.mask_T) if k else None for s, r, k in pairs]
        return group.with_advantages(advantages)

    def _advantage(self, signal: Signal, mask_T: "np.typing.NDArray[np.bool_]") -> Floats:
        value_T, step_T = (_score(signal.scores, name) for name in ("value", "step"))
        reward = np.float32(signal.reward or 0.0)
        if self.kind == "outcome":
            return (reward - value_T) * mask_T
        # Steps count from 0: the -1 before them lets the first token begin one.
        starts = np.flatnonzero(np.diff(step_T, prepend=-1.0))
        values = np.append(value_T[starts], reward)
        step = np.searchsorted(starts, np.arange(len(step_T)), side="right") - 1
        return np.diff(values)[step].astype(np.float32) * mask_T


def _score(scores: Mapping[str, float | Floats], name: str) -> Floats:
    found = scores.get(name)
    if not isinstance(found, np.ndarray):
        raise ConfigError(
            f"strategy.filters: step_advantage needs the score {name!r} for each token: give the "
            "strategy the control step_values."
        )
    return found
