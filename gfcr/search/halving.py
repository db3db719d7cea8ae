"""Successive halving: stops the worse arms at each of several rungs."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Literal, final

from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.experiment.source import Pause
from gfcr.search.base import Length, Round, Scores, StoppingRule, judged
from gfcr.values.ranges import Large


@final
@dataclass(kw_only=True)
class Halving(StoppingRule):
    """Keeps the best 1/factor of the arms at each rung, by their mean score over seeds.

    Jamieson and Talwalkar 2016 (arXiv 1502.07943): rungs at first, first * factor, ... of the
    resource. All arms are brought to a rung before any is judged, so that their order is no matter.
    An arm that has lost a seed runs on unjudged, so that the others are judged by all of theirs.
    """

    paper = "1502.07943"

    first: Large
    """The first rung, in units of `resource`."""
    factor: Annotated[int, Interval(ge=2, le=1000)] = 3
    resource: Literal["updates", "generated_tokens"] = "updates"
    """The resource in which rungs are counted."""

    def rounds(self, *, seeds: Sequence[int], length: Length) -> list[Round]:
        total = length.updates if self.resource == "updates" else length.generated_tokens
        if total is None or self.first >= total:
            need = "trainer.max_steps" if self.resource == "updates" else "budget.generated_tokens"
            raise ConfigError(
                f"stopping.first={self.first} is not below {need}={total}: give a smaller first "
                "rung or a larger budget."
            )
        uneven = self.resource == "updates" and length.every and self.first % length.every
        if not length.every or uneven:
            raise ConfigError(
                f"evaluation.every={length.every} gives no score at stopping.first={self.first} "
                f"{self.resource}: evaluate every so many updates that the rungs are among them."
            )
        rungs: list[int] = []
        while (rung := self.first * self.factor ** len(rungs)) < total:
            rungs.append(rung)
        pauses = [Pause(of=self.resource, at=rung) for rung in rungs]
        return [Round(seeds=tuple(seeds), until=until) for until in (*pauses, None)]

    def expected_share(self, *, arms: int, length: Length) -> float:
        """See `StoppingRule.expected_share`: the kept arms at each rung, and the baseline."""
        total = length.updates if self.resource == "updates" else length.generated_tokens
        assert total is not None, "rounds() has checked the rule"
        rounds = self.rounds(seeds=(0,), length=length)
        ends = [total if each.until is None else each.until.at for each in rounds]
        spent, alive, before = 0.0, arms, 0
        for end in ends:
            spent += min(arms, alive + (alive < arms)) * (end - before)
            alive, before = max(1, alive // self.factor), end
        return spent / (arms * total)

    def give_up(self, scores: Scores) -> dict[str, str]:
        paired = judged(scores)
        means = {arm: round(fmean(own), 12) for arm, own in paired.items()}  # sums have errors
        best = sorted(means.values(), reverse=True)[: max(1, len(means) // self.factor)]
        return {
            arm: f"mean {mean:.4g} over {len(paired[arm])} seed(s), the best 1/{self.factor} of "
            f"{len(means)} arms have {best[-1]:.4g} or more"
            for arm, mean in means.items()
            if mean < best[-1]
        }
