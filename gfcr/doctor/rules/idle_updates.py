"""Updates in which nothing is trained."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class IdleUpdates(Rule):
    """All groups were rejected: the update counts and moves nothing."""

    stage: ClassVar[str] = "Filter"
    cell: ClassVar[str] = "F5.6"
    says: ClassVar[str] = "{figure:.0%} of the updates had nothing to train on."
    limit: ClassVar[float] = 0.2
    metrics: ClassVar[tuple[str, ...]] = ("train/skipped",)

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        return history.last("train/skipped")

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.controls.refill={name: refill, when_spent: short}",),
                why="rejected groups are replaced by further ones",
            ),
            Lever(
                overrides=("strategy.group_size=16",),
                why="larger groups, which are seldom all alike",
            ),
        ]
