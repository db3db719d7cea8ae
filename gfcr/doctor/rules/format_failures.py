"""Answers fail a gate before anybody looks at their content."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class FormatFailures(Rule):
    """A gate's failures come of the form, not of the reasoning.

    Measured where a structural gate is set; of several, the worst.
    """

    stage: ClassVar[str] = "Filter"
    cell: ClassVar[str] = "F5.2"
    says: ClassVar[str] = "{figure:.0%} of the rollouts fail a structural gate."
    limit: ClassVar[float] = 0.3
    metrics: ClassVar[tuple[str, ...]] = (
        "group/format_gate_failed",
        "group/json_gate_failed",
        "group/parse_gate_failed",
    )

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        shares = [history.last(name) for name in self.metrics]
        return max((share for share in shares if share is not None), default=None)

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        gates = {f"group/{f['name']}_failed": a for a, f in spec["strategy"]["filters"].items()}
        own = [f"strategy.filters.{gates[name]}" for name in self.metrics if name in gates]
        return [
            *(
                Lever(
                    overrides=(f"{at}.failing=add", f"{at}.reward=-0.5"),
                    why="a price on the form, so that it is learned",
                )
                for at in own
            ),
            Lever(
                overrides=(f"sampling.temperature={0.7 * spec['sampling']['temperature']:.2g}",),
                why="fewer slips of the form",
            ),
            Lever(
                overrides=("strategy=few_shot",),
                why="shows answers of the right form first",
            ),
        ]
