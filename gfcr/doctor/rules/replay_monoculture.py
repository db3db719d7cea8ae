"""The buffer, not the policy, makes the batch."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class ReplayMonoculture(Rule):
    """What is replayed again and again is learned by heart, and is of older policies."""

    stage: ClassVar[str] = "Replay"
    cell: ClassVar[str] = "R7.2"
    says: ClassVar[str] = "{figure:.0%} of the rollouts that are trained come from a buffer."
    limit: ClassVar[float] = 0.6
    metrics: ClassVar[tuple[str, ...]] = ("rollouts/replayed", "rollouts/trained")

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        return history.last("rollouts/replayed", over="rollouts/trained")

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.replays.group_replay.reuses=1",),
                why="each group comes back once",
            ),
            Lever(
                overrides=("strategy.replays.group_replay.cooldown=4",),
                why="a group rests between two uses",
            ),
            Lever(
                overrides=("strategy.replays.repo.num=1",),
                why="fewer recalled rollouts for each fresh one",
            ),
        ]
