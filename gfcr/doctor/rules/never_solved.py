"""Prompts that no rollout answers."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class NeverSolved(Rule):
    """Prompts that no rollout answers.

    A group without a right rollout has nothing to learn from, however often its prompt
    comes (the learning cliff of 2510.19807). Read from the first window and the last: what
    falls by itself needs no lever.
    """

    stage: ClassVar[str] = "Generate"
    cell: ClassVar[str] = "G4.3"
    says: ClassVar[str] = (
        "{figure:.0%} of the groups have no right rollout, and it has been so from the start."
    )
    limit: ClassVar[float] = 0.4
    metrics: ClassVar[tuple[str, ...]] = ("coverage/solved",)

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        first, last = history.first("coverage/solved"), history.last("coverage/solved")
        return None if first is None or last is None else 1 - max(first, last)

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy=scaf_grpo",),
                why="asks again under hints, the weakest that helps",
            ),
            Lever(
                overrides=("strategy=few_shot",),
                why="shows solved prompts before one that no rollout answered",
            ),
            Lever(
                overrides=("strategy=mopps",),
                why="draws the prompts that are solved half of the time",
            ),
        ]
