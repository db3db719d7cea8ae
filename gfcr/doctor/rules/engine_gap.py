"""Engine and trainer disagree about the policy."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class EngineGap(Rule):
    """Engine and trainer disagree about the policy.

    On what was sampled from this very policy the log-probs differ: another precision, or
    weights that did not arrive.
    """

    stage: ClassVar[str] = "Control"
    cell: ClassVar[str] = "C6.7"
    says: ClassVar[str] = (
        "log-probs of engine and trainer differ by {figure:.3f} nats on what this policy sampled."
    )
    limit: ClassVar[float] = 0.02
    metrics: ClassVar[tuple[str, ...]] = ("train/logprob_gap",)

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        stale = history.last("off_policy/share")
        return history.last("train/logprob_gap") if stale == 0 else None

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("engine.dtype=float32",),
                why="the trainer's precision",
            ),
            Lever(
                overrides=("strategy.correction=truncated",),
                why="weighs each token by what the trainer's policy gives it",
            ),
        ]
