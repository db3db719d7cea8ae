"""Tokens of old policies make the update."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class OffPolicyDrift(Rule):
    """Tokens of old policies make the update.

    Where the policy has moved away from what sampled the batch, few tokens carry an
    importance-weighted update, and without weights it is biased.
    """

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.7"
    says: ClassVar[str] = (
        "the trained tokens are worth {figure:.0%} fewer under the policy that learns from them."
    )
    limit: ClassVar[float] = 0.1
    metrics: ClassVar[tuple[str, ...]] = ("train/effective_share",)

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        share = history.last("train/effective_share")
        return None if share is None else 1 - share

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.correction=truncated",),
                why="weighs each token by min(pi / pi_sampled, cap)",
            ),
            Lever(
                overrides=("strategy.replays.partial_rollouts.max_staleness=1",),
                why="drops what is older than one update",
            ),
            Lever(
                overrides=("strategy.replays.group_replay.max_age=2",),
                why="forgets groups after two updates",
            ),
            Lever(
                overrides=("trainer.learning_rate=1e-5",),
                why="a policy that moves less between sampling and use",
            ),
        ]
