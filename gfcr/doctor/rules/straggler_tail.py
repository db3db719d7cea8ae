"""A few rollouts hold up the batch."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class StragglerTail(Rule):
    """A few rollouts hold up the batch.

    An update waits for its longest rollout, with an engine that is mostly empty by then;
    so it does for each further round of rollouts (2509.18521). In forward passes, and only
    where fewer than 35 % of the rollouts are in flight on average.
    """

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.5"
    says: ClassVar[str] = (
        "an update takes {figure:.1f} times the forward passes of nine in ten rollouts: the "
        "engine waits for the rest."
    )
    limit: ClassVar[float] = 2.0
    metrics: ClassVar[tuple[str, ...]] = ("engine/forward_passes", "length/all/p90")

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        passes, generated = "engine/forward_passes", "tokens/generated"
        own = history.increments(generated)
        a_pass, asked = own.last(generated, over=passes), history.last("rollouts/all")
        needed, taken = history.last("length/all/p90"), history.last(passes)
        if a_pass is None or not asked or not needed or taken is None:
            return None
        return 0.0 if a_pass / asked > 0.35 else taken / needed

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.controls.refill.oversample=2.0",),
                why="replacements are begun in one round in place of several",
            ),
            Lever(
                overrides=(
                    "strategy.controls.oversample={name: oversample, factor: 2.0}",
                    "strategy.replays.partial_rollouts={name: partial_rollouts}",
                    "strategy.correction=truncated",
                ),
                why="APRIL: the first to finish are trained, the others go on in the next update",
            ),
            Lever(
                overrides=("strategy=rollpacker",),
                why="prompts with long answers wait for a batch of their own",
            ),
            Lever(
                overrides=("strategy.drafter=das",),
                why="speculation: several tokens of a long rollout a pass, the same distribution",
            ),
        ]
