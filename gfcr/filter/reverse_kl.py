"""Advantages that move the policy towards a teacher, token by token."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.filter._scores import unscored
from gfcr.part import Recipe, heating
from gfcr.stages import Filter, View
from gfcr.types import Floats, Group, Rollout, Signal
from gfcr.values.ranges import NonNegative


@final
@dataclass(kw_only=True)
class ReverseKl(Filter):
    """A_t = reward A + coefficient (log p_teacher(y_t) - log p_policy(y_t)).

    Over tokens that the policy samples, the difference is on average minus the divergence
    KL(policy, teacher) of the law of that token: its sampled estimate. Reads the score `teacher`,
    which the control of that name gives, and the log-probs sampled with. A is the advantage that a
    map before it gave; with `reward` 0 the teacher alone is followed.

    Hurts as the reverse divergence does: the policy keeps to a part of what the teacher would say.
    A token is only told of itself, never of what it brings about.
    """

    paper: ClassVar[str] = "2306.13649"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "ours"
    gives_advantages = True
    tokenwise = True

    coefficient: NonNegative = 1.0
    reward: NonNegative = 0.0
    """What the advantage of the map before it counts."""

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if why := unscored(strategy, "teacher", by="teacher"):
            return why
        if hot := heating(strategy):
            return (
                f"{hot[0]} samples at another temperature than the run's, at which the teacher "
                "scores: the difference would be of temperatures, too. Leave one of them out."
            )
        if self.reward and strategy.map_before(at) is None:
            return (
                f"reward={self.reward} weighs the advantage of a map before it, and there is none: "
                "put `advantage: {name: group_advantage}` there, or set reward=0."
            )
        return super().clash(strategy, at=at)

    def apply(self, group: Group, *, view: View) -> Group:
        triples = zip(group.rollouts, group.signals, group.kept_N, strict=True)
        return group.with_advantages([self._advantage(r, s) if k else None for r, s, k in triples])

    def _advantage(self, rollout: Rollout, signal: Signal) -> Floats:
        teacher_T = signal.scores.get("teacher")
        if not isinstance(teacher_T, np.ndarray):
            raise ConfigError(
                "strategy.filters: reverse_kl needs the score 'teacher' for each token: give the "
                "strategy the control teacher."
            )
        before = 0.0 if signal.advantage is None else signal.advantage
        told_T = self.coefficient * (teacher_T - rollout.logprobs_T) + self.reward * before
        return np.asarray(told_T * rollout.mask_T, np.float32)
