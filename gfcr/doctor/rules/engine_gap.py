"""Engine and trainer disagree about the policy."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule


@final
class EngineGap(Rule):
    """Engine and trainer disagree about the policy.

    On what was sampled from this very policy, under the trained prompt and at the run's
    temperature, the log-probs differ: sampling filters that the trainer knows nothing of, another
    precision, or weights that did not arrive.
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
        stale, moved = history.last("off_policy/share"), history.last("off_policy/moved")
        own = stale == 0 and not moved
        return history.last("train/logprob_gap") if own else None

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        plain = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
        filters = tuple(f"sampling.{k}={v}" for k, v in plain.items() if spec["sampling"][k] != v)
        unfiltered = Lever(overrides=filters, why="samples from the policy that is trained")
        return [
            *([unfiltered] if filters else []),
            Lever(
                overrides=("engine.dtype=float32",),
                why="the trainer's precision",
            ),
            Lever(
                overrides=("strategy.correction=truncated",),
                why="weighs each token by what the trainer's policy gives it",
            ),
        ]
