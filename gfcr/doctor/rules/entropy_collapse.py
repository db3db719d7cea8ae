"""The policy stops exploring before it has learned."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class EntropyCollapse(Rule):
    """The policy stops exploring before it has learned.

    Entropy falls while a policy learns; where it has gone and prompts stay unsolved, what
    is sampled no longer differs (2505.22617).
    """

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.4"
    says: ClassVar[str] = (
        "the entropy has lost {figure:.0%} of what it was, and more than one group in ten is "
        "unsolved."
    )
    limit: ClassVar[float] = 0.7
    metrics: ClassVar[tuple[str, ...]] = ("train/entropy",)

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        first, last = history.first("train/entropy"), history.last("train/entropy")
        solved = history.last("coverage/solved")
        if first is None or last is None or solved is None or first <= 0:
            return None
        return 0.0 if solved > 0.9 else 1 - last / first

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        cold = float(spec["sampling"]["temperature"]) < 1
        warmer = Lever(overrides=("sampling.temperature=1.0",), why="samples the policy as it is")
        return [
            *([warmer] if cold else []),
            Lever(
                overrides=(
                    "strategy.controls.entropy_temperature={name: entropy_temperature}",
                    "strategy.correction=truncated",
                ),
                why="the temperature follows a target entropy",
            ),
            Lever(
                overrides=(f"prompts={2 * spec['prompts']}",),
                why="more prompts in an update, so that none is learned by heart",
            ),
        ]
