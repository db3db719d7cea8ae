"""Answers that the cap cuts are trained as wrong ones."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class Truncation(Rule):
    """What is cut has no answer to score: its reward says nothing of its reasoning (2503.14476)."""

    stage: ClassVar[str] = "Filter"
    cell: ClassVar[str] = "F5.2"
    says: ClassVar[str] = "{figure:.0%} of the rollouts that are trained were cut at the token cap."
    limit: ClassVar[float] = 0.1
    metrics: ClassVar[tuple[str, ...]] = ("length/trained/truncated", "length/all/truncated")

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        return history.last("length/trained/truncated")

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.filters.truncation={name: truncation_gate}",),
                why="leaves rollouts that were cut out of the loss",
            ),
            Lever(
                overrides=(f"sampling.max_tokens={2 * spec['sampling']['max_tokens']}",),
                why="room for the longest answers",
            ),
            Lever(
                overrides=("strategy.filters.soft_overlong={name: soft_overlong}",),
                why="a reward that falls before the cap is met",
            ),
        ]
