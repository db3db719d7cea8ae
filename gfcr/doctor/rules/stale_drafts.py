"""A drafter that falls behind the policy."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class StaleDrafts(Rule):
    """Accepted lengths fall as the policy moves away from what the drafter knows."""

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.8"
    says: ClassVar[str] = "drafts are accepted {figure:.0%} less far than at the start."
    limit: ClassVar[float] = 0.3
    metrics: ClassVar[tuple[str, ...]] = ("speculation/acceptance_length",)

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        first = history.first("speculation/acceptance_length")
        last = history.last("speculation/acceptance_length")
        if first is None or last is None or first <= 1:
            return None
        return 1 - (last - 1) / (first - 1)

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.drafter=das",),
                why="drafts from the rollouts of the latest updates",
            ),
            Lever(
                overrides=("strategy.drafter=online",),
                why="trains the draft model on what is sampled",
            ),
            Lever(
                overrides=("strategy.drafter=none",),
                why="no speculation",
            ),
        ]
