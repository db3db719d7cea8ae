"""The contract of stopping rules: which arms of a study are not worth the rest of their budget.

A rule never says that an arm is better. It gives arms up, and an arm given up is reported as
stopped and never compared: its p-value counts as 1 among those that are corrected together. That
only ever raises p-values, so the final comparison keeps its error rate whatever the rule does; what
early stopping can cost is power.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gfcr.experiment.source import Pause
from gfcr.part import Part

Scores: TypeAlias = Mapping[str, Mapping[int, float]]
"""Arm -> seed -> score, finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """What a run may last."""

    updates: int
    generated_tokens: int | None = None
    """None without a token budget."""
    every: int = 0
    """Updates between held-out evaluations; 0 is none in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Runs to make before the next decision."""

    seeds: tuple[int, ...]
    until: Pause | None
    """Where the runs pause; None takes them to their end."""


class StoppingRule(Part):
    """Gives up arms between rounds of runs. The file name is the name."""

    @abstractmethod
    def rounds(self, *, seeds: Sequence[int], length: Length) -> list[Round]:
        """Returns the rounds; the rule is asked after each but the last.

        Raises:
            ConfigError: the rule's settings do not fit the study.
        """

    def expected_share(self, *, arms: int, length: Length) -> float:
        """Returns the share of the cost of running all arms to their end; 1 where none is known."""
        return 1.0

    @abstractmethod
    def give_up(self, scores: Scores) -> dict[str, str]:
        """Returns the arms to stop, each with the reason.

        Args:
            scores: of the arms still running, all at the same point; the baseline, which is never
                stopped, among them.
        """


def shared_seeds(scores: Scores) -> list[int]:
    """Returns the seeds that every arm has a score for, sorted."""
    held = [set(by_seed) for by_seed in scores.values()]
    return sorted(held[0].intersection(*held[1:])) if held else []
