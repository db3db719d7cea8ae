"""The training reward rises and the held-out one does not."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule
from gfcr.tracking.names import HELDOUT


@final
class RewardHacking(Rule):
    """The training reward rises and the held-out one does not.

    What is rewarded is not what is wanted: prompts learned by heart, or a verifier's false
    positives (2605.02913).
    """

    stage: ClassVar[str] = "Filter"
    cell: ClassVar[str] = "F5.5"
    says: ClassVar[str] = (
        "the held-out score lies {figure:.2f} below its best, while the training reward rises."
    )
    limit: ClassVar[float] = 0.1
    metrics: ClassVar[tuple[str, ...]] = (
        "reward/all",
        "heldout/accuracy",
    )

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        gain, held = history.gain("reward/all"), history.series(HELDOUT).values
        if gain is None or len(held) < 4:
            return None
        means = [fmean(pair) for pair in pairwise(held)]
        return max(means) - means[-1] if gain > 0 else 0.0

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        return [
            Lever(
                overrides=("trainer.beta=0.04",),
                why="a KL term holds the policy near to where it began",
            ),
            Lever(
                overrides=(f"prompts={2 * spec['prompts']}",),
                why="more prompts in an update, each of which weighs less",
            ),
            Lever(
                overrides=("trainer.learning_rate=1e-5",),
                why="smaller steps, of which fewer are lost",
            ),
        ]
