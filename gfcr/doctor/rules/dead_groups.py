"""Groups that teach nothing are trained."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class DeadGroups(Rule):
    """Groups that teach nothing are trained.

    Rewards of a group that are all the same give no advantage: its tokens are paid, and
    the batch is smaller than it seems (2503.14476).
    """

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.2"
    says: ClassVar[str] = (
        "{figure:.0%} of the groups in an update have no gradient: their rewards are all the same."
    )
    limit: ClassVar[float] = 0.5
    metrics: ClassVar[tuple[str, ...]] = ("coverage/live", "coverage/solved")

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        live = history.last("coverage/live")
        return None if live is None else 1 - live

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=(
                    "strategy.filters.zero_variance={name: zero_variance}",
                    "strategy.controls.refill={name: refill, when_spent: short}",
                ),
                why="dynamic sampling: dead groups are replaced by further ones",
            ),
            Lever(
                overrides=("strategy=greso",),
                why="skips prompts whose groups were dead before they are rolled out",
            ),
            Lever(
                overrides=("strategy=rl_zvp",),
                why="lets groups without a spread teach by their tokens' entropies",
            ),
        ]
