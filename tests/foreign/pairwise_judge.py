"""The policy itself judges its answers in pairs; a rollout's reward is the share it wins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Control, Evaluator, Scratch
from gfcr.strategy import Strategy
from gfcr.types import Group, Sampling
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Pairwise(Control, Evaluator):
    """Asks which of two answers is better, for every pair of a group.

    The judge's verdict is a digit: odd prefers the first, even the second, anything else neither.
    """

    max_tokens: Count = 8
    asked: int = field(init=False, default=0)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        """See `Evaluator.evaluate`."""
        pairs = list(combinations(range(len(group.rollouts)), 2))
        verdicts = await scratch.gather(*(self._compare(group, pair, scratch) for pair in pairs))
        wins = [0.0] * len(group.rollouts)
        for (first, second), preferred in zip(pairs, verdicts, strict=True):
            wins[first] += preferred
            wins[second] += 1 - preferred
        games = len(group.rollouts) - 1
        self.asked += len(pairs)
        return group.judged([won / games for won in wins]).with_scores("wins", wins)

    async def _compare(self, group: Group, pair: Sequence[int], scratch: Scratch) -> float:
        one, two = (group.rollouts[i].text[:12] for i in pair)
        sampling = Sampling(max_tokens=self.max_tokens)
        judge = scratch.aside(f"{group.prompt.text}{one},{two}=", role="judge", sampling=sampling)
        await judge.sample()
        digits = [c for c in scratch.view.decode(judge.tokens) if c.isdigit()]
        return float(int(digits[0]) % 2) if digits else 0.5

    def metrics(self) -> dict[str, float]:
        """Pairs judged so far."""
        return {"asked": float(self.asked)}


def pairwise_judge(*, group_size: int = 4) -> Strategy:
    """Rewards from a pairwise judge."""
    return Strategy(
        name="pairwise_judge",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"judge": Pairwise()},
        group_size=group_size,
    )
