"""The contract of stopping rules, which stop arms of a study before their end.

A rule never says that an arm is better. It stops arms, and a stopped arm is reported as such and
never compared: its p-value counts as 1 among those that are corrected together. That only ever
raises p-values, so the final comparison keeps its error rate whatever the rule does; what early
stopping can cost is power.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gfcr.experiment.source import Pause
from gfcr.part import Part

Scores: TypeAlias = Mapping[str, Mapping[int, float]]
"""Finite scores by arm and seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """The bounds on the length of a run."""

    updates: int
    generated_tokens: int | None = None
    """The bound on tokens generated for training; None without one."""
    every: int = 0
    """Updates between held-out evaluations; 0 stands for none in the course of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The runs to make before the next decision."""

    seeds: tuple[int, ...]
    until: Pause | None
    """Where the runs pause; None runs them to their end."""


class StoppingRule(Part):
    """Stops arms between rounds of runs; the module's name is the rule's."""

    @abstractmethod
    def rounds(self, *, seeds: Sequence[int], length: Length) -> list[Round]:
        """Returns the rounds; the rule is asked after each but the last.

        Raises:
            ConfigError: the rule's settings do not fit the study.
        """

    def expected_share(self, *, arms: int, length: Length) -> float:
        """Returns the expected share of the cost of running all arms to their end; 1 if unknown."""
        return 1.0

    @abstractmethod
    def give_up(self, scores: Scores) -> dict[str, str]:
        """Returns the arms to stop, each with the reason.

        Args:
            scores: scores of the arms still running, all at the same point, with the baseline's,
                which is never stopped.
        """


def judged(scores: Scores) -> dict[str, list[float]]:
    """Returns the scores of the arms that have lost no seed, at the seeds that these share."""
    most = max(map(len, scores.values()), default=0)
    whole = {arm: by_seed for arm, by_seed in scores.items() if len(by_seed) == most}
    seeds = sorted(set[int].intersection(*map(set, whole.values()))) if whole else []
    return {arm: [by_seed[s] for s in seeds] for arm, by_seed in whole.items() if seeds}
