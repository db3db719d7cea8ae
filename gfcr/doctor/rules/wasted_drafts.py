"""Speculation verifies what it then discards."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class WastedDrafts(Rule):
    """Each rejected token took a place in a forward pass.

    Speculation pays where several tokens of a draft are accepted.
    """

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.8"
    says: ClassVar[str] = "{figure:.0%} of the drafted tokens are rejected."
    limit: ClassVar[float] = 0.8
    metrics: ClassVar[tuple[str, ...]] = ("speculation/drafted", "speculation/accepted")

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        share = history.last("speculation/accepted", over="speculation/drafted")
        return None if share is None else 1 - share

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.drafter=das",),
                why="drafts from this run's own rollouts, as long as they are accepted",
            ),
            Lever(
                overrides=("strategy.drafter=none",),
                why="no speculation",
            ),
        ]
