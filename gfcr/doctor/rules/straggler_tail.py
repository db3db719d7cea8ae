"""A few rollouts hold up the batch."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class StragglerTail(Rule):
    """A few rollouts hold up the batch.

    An update waits for its longest rollout, with an engine that is mostly empty by then; so it
    does for each further round of rollouts (2509.18521). Tokens per forward pass over rollouts: a
    batch whose rollouts are all in flight from its first pass to its last has 1.
    """

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.5"
    says: ClassVar[str] = (
        "{figure:.0%} of an update's rollouts are not in flight while the engine works, on average."
    )
    limit: ClassVar[float] = 0.7
    metrics: ClassVar[tuple[str, ...]] = (
        "engine/forward_passes",
        "length/all/p99",
        "length/all/p50",
    )

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        own = history.increments("tokens/generated")
        a_pass = own.last("tokens/generated", over="engine/forward_passes")
        rollouts, aborted = history.last("rollouts/all"), history.last("rollouts/aborted")
        if a_pass is None or not rollouts or aborted is None:
            return None
        episodes, size = history.last("group/episodes"), history.last("group/size")
        if episodes and size:  # whose turns, rollouts of their own, cannot be in flight together
            rollouts *= episodes / size
        return 1 - a_pass / (rollouts + aborted)

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
