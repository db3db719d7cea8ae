"""The verifier fails."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class Unscorable(Rule):
    """The verifier fails.

    Rollouts without a verdict are left out of the update: the batch shrinks, and what is
    left may be biased to what is easy to judge.
    """

    stage: ClassVar[str] = "Filter"
    cell: ClassVar[str] = "F5.3"
    says: ClassVar[str] = "{figure:.0%} of the rollouts got no verdict."
    limit: ClassVar[float] = 0.1
    metrics: ClassVar[tuple[str, ...]] = ("rollouts/unscorable", "rollouts/all")

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        return history.last("rollouts/unscorable", over="rollouts/all")

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=(f"task.timeout_s={2 * float(spec['task'].get('timeout_s', 30.0)):g}",),
                why="more time for each verdict; `unscorable/REASON` says what failed",
            ),
            Lever(
                overrides=("strategy.filters.parse_gate={name: parse_gate}",),
                why="leaves out what no verifier can read",
            ),
        ]
