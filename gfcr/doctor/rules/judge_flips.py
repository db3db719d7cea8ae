"""A judge goes by the order of the answers."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class JudgeFlips(Rule):
    """A judge goes by the order of the answers.

    Asked in both orders, its verdicts on a pair contradict each other: a coin's do so for half of
    the pairs (2306.05685). Such a pair counts as a tie, and a group of ties teaches nothing.
    """

    stage: ClassVar[str] = "Filter"
    cell: ClassVar[str] = "F5.5"
    says: ClassVar[str] = (
        "the judge contradicts itself on {figure:.0%} of the pairs when their order is changed."
    )
    limit: ClassVar[float] = 0.4
    metrics: ClassVar[tuple[str, ...]] = ("controls.judge/flip_rate", "controls.judge/first_share")

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        return history.last("controls.judge/flip_rate")

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("strategy.controls.judge.judge={name: policy, temperature: 0.0}",),
                why="the judge's likeliest verdict, and not a draw",
            ),
            Lever(
                overrides=("strategy=self_judge",),
                why="scores each answer by itself, so that there is no order",
            ),
        ]
