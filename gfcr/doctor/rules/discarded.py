"""Most of what is sampled is not trained."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class Discarded(Rule):
    """Rejected, aborted, surplus: `tokens/...` says which.

    Tokens are the price of a run, so a comparison per update hides it.
    """

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.2"
    says: ClassVar[str] = "{figure:.0%} of the sampled tokens are not trained."
    limit: ClassVar[float] = 0.5
    metrics: ClassVar[tuple[str, ...]] = ("cost/discarded",)

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        return history.last("cost/discarded")

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy=greso",),
                why="skips prompts whose groups were dead before they are rolled out",
            ),
            Lever(
                overrides=("strategy=mopps",),
                why="draws the prompts that are solved half of the time",
            ),
            Lever(
                overrides=(
                    "strategy.replays.partial_rollouts={name: partial_rollouts}",
                    "strategy.correction=truncated",
                ),
                why="what is aborted goes on in the next update",
            ),
        ]
