"""Stops arms by a paired Wilcoxon test."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.search.base import Length, Round, Scores, StoppingRule, judged
from gfcr.values.ranges import Count, Fraction


@final
@dataclass(kw_only=True)
class Wilcoxon(StoppingRule):
    """Runs seed after seed and stops arms that the best arm beats by a signed-rank test.

    One-sided, paired by seed, as Optuna's WilcoxonPruner decides. Of n seeds the smallest p-value
    there is is 1 / 2^n: below 4 seeds, none is under 0.1. An arm that has lost a seed runs on
    unjudged, so that the others are judged by all of theirs.
    """

    p: Fraction = 0.1
    """Level below which an arm is stopped; no error rate of the study's verdicts."""
    after: Count = 2
    """The number of seeds before the first decision."""

    def rounds(self, *, seeds: Sequence[int], length: Length) -> list[Round]:
        if 2.0 ** -(len(seeds) - 1) >= self.p:
            raise ConfigError(
                f"stopping.p={self.p:g} stops nothing with {len(seeds)} seeds: of n paired seeds "
                "the smallest p-value is 1 / 2^n. Give more seeds, or a larger p."
            )
        if self.after >= (num := len(seeds)):
            raise ConfigError(
                f"stopping.after={self.after} is not allowed with {num} seeds: the last decision "
                f"is after {num - 1}. Give an integer from 1 to {num - 1}, or more seeds."
            )
        return [Round(seeds=(seed,), until=None) for seed in seeds]

    def give_up(self, scores: Scores) -> dict[str, str]:
        from gfcr.stats.scipy_stats import stats

        paired = judged(scores)
        num = len(next(iter(paired.values()), ()))
        if num < max(2, self.after):
            return {}
        means = {arm: fmean(own) for arm, own in paired.items()}
        best = sorted(arm for arm, mean in means.items() if mean == max(means.values()))

        def p_value(arm: str, by: str) -> float:
            differences = np.subtract(paired[arm], paired[by])
            # Those that are 0 count half on either side.
            found = stats.wilcoxon(differences, alternative="less", zero_method="zsplit")
            return float(found.pvalue)

        beaten = {
            arm: by
            for arm in paired
            for by in best
            if arm not in best and p_value(arm, by) < self.p
        }
        return {
            arm: f"signed-rank test against {by} over {num} seeds: p < {self.p:g}"
            for arm, by in beaten.items()
        }
