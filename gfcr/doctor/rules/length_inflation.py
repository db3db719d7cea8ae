"""Answers grow and score no better."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class LengthInflation(Rule):
    """Answers grow and score no better.

    Tokens are spent that buy no reward: a bias of the loss to long answers, or padding
    that a verifier does not mind (2503.20783).
    """

    stage: ClassVar[str] = "Filter"
    cell: ClassVar[str] = "F5.7"
    says: ClassVar[str] = (
        "answers are {figure:.0%} longer than they were, and the reward has not risen."
    )
    limit: ClassVar[float] = 0.5
    metrics: ClassVar[tuple[str, ...]] = ("length/all/mean",)

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        first, last = history.first("length/all/mean"), history.last("length/all/mean")
        gain = history.gain("reward/all")
        if not first or last is None or gain is None:
            return None
        return 0.0 if gain > 0.02 else last / first - 1

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.loss.aggregation=dr_grpo",),
                why="no division by length: long wrong answers are discouraged in full",
            ),
            Lever(
                overrides=("strategy=kimi_length",),
                why="prefers the shorter ones of the right answers",
            ),
            Lever(
                overrides=("strategy=gfpo",),
                why="trains on the answers that earn most per token",
            ),
        ]
