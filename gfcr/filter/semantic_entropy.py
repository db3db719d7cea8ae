"""Takes smaller steps on prompts whose answers disagree."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from gfcr.filter._choice import weighed
from gfcr.filter._texts import check_pattern, written
from gfcr.stages import Filter, View
from gfcr.types import Group, Rollout
from gfcr.values.ranges import NonNegative, Text


@final
@dataclass(kw_only=True)
class SemanticEntropy(Filter):
    r"""Weighs a group down by the entropy of its answers: the more of them, the less sure.

    The n kept rollouts fall into clusters of equal answers, with shares p_k:
        SE = -sum_k p_k log p_k,   x = SE / log n,   weight = f(x),
        f = max(0, 1 - alpha x) (linear) or exp(-alpha x) (exponential).
    After SEED-GRPO, which scales advantages by f(alpha SE / SE_max); that estimates p_k from
    likelihoods, this one counts. Answers are compared without case and blanks; a rollout without
    one is a cluster of its own. Before or behind the advantage map, it is the same.

    Hurts on hard prompts, which disagree most: their rare successes count least.
    """

    paper: ClassVar[str] = "2505.12346"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    answer: Text = r"(?:#+|\\boxed\{)\s*([^\s#}]+)"
    """Group 1 of the last match is the answer; `.` matches line breaks too."""
    alpha: NonNegative = 0.5
    """How much disagreement counts. From 1 on the linear form learns nothing from a group whose
    answers all differ."""
    form: Literal["linear", "exponential"] = "linear"

    def __post_init__(self) -> None:
        check_pattern(self.answer, key="semantic_entropy.answer", groups=1)

    def fewest(self) -> int:
        return 2

    def apply(self, group: Group, *, view: View) -> Group:
        kept: list[int] = np.flatnonzero(group.kept_N).tolist()
        answers = [self._answer(group.rollouts[i], view=view) for i in kept]
        share = _entropy(answers) / np.log(len(answers)) if len(answers) > 1 else 0.0
        linear = self.form == "linear"
        weight = max(0.0, 1 - self.alpha * share) if linear else np.exp(-self.alpha * share)
        group = group.with_values(semantic_entropy=float(share))
        return weighed(group, kept, [float(weight)] * len(kept))

    def _answer(self, rollout: Rollout, *, view: View) -> str:
        text = written(rollout, view=view)
        found = [m[1] for m in re.finditer(self.answer, text, re.DOTALL)]
        # No answer agrees with none; an id is no answer, whatever is written.
        return "".join((found[-1] or "").split()).casefold() if found else f"\0{rollout.id}"


def _entropy(answers: list[str]) -> float:
    shares = np.array(list(Counter(answers).values()), np.float64) / len(answers)
    return float(-np.sum(shares * np.log(shares)))
