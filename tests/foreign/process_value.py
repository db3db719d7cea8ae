"""Values of a rollout's steps, estimated by continuing them (VinePPO's way, 2410.01679)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from gfcr.generate.sample import Sample
from gfcr.stages import Control, Evaluator, Filter, Scratch, View
from gfcr.strategy import Strategy
from gfcr.types import Floats, Group, Rollout
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Probes(Control, Evaluator):
    """Splits a rollout in `steps`, continues each prefix `samples` times, scores the ends."""

    steps: Count = 2
    samples: Count = 2
    probed: int = field(init=False, default=0)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        """See `Evaluator.evaluate`."""
        values = await scratch.gather(*(self._values(r, scratch) for r in group.rollouts))
        return group.with_scores("value", values)

    async def _values(self, rollout: Rollout, scratch: Scratch) -> Floats:
        """V(prefix) at each token: that of the step it is in, the reward in the last one."""
        num = len(rollout)
        cuts = [num * step // self.steps for step in range(self.steps)]
        means = await scratch.gather(*(self._value(rollout, cut, scratch) for cut in cuts))
        value_T = np.full(num, rollout.reward or 0.0, np.float32)
        for start, stop, mean in zip(cuts, [*cuts[1:], num], means, strict=True):
            value_T[start:stop] = mean
        return value_T

    async def _value(self, rollout: Rollout, cut: int, scratch: Scratch) -> float:
        prefix = rollout.tokens_T[:cut].tolist()
        tokens = (*rollout.prompt.tokens, *prefix)
        probes = [scratch.aside(tokens, role="probe") for _ in range(self.samples)]
        await scratch.gather(*(probe.sample() for probe in probes))
        texts = [scratch.view.decode([*prefix, *probe.tokens]) for probe in probes]
        verdicts = await scratch.gather(*(scratch.verify(text) for text in texts))
        self.probed += len(probes)
        rewards = [v.reward for v in verdicts if v.reward is not None]
        return float(np.mean(rewards)) if rewards else 0.0

    def metrics(self) -> dict[str, float]:
        """Probes so far."""
        return {"probed": float(self.probed)}


@final
@dataclass(kw_only=True)
class StepAdvantage(Filter):
    """A_t = r - V(step of t)."""

    gives_advantages = True

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        values: Sequence[float | Floats] = [s.scores["value"] for s in group.signals]
        pairs = zip(group.rewards_N, values, strict=True)
        return group.with_advantages([np.float32(reward) - value for reward, value in pairs])


def process_value(*, group_size: int = 4, steps: int = 2, samples: int = 2) -> Strategy:
    """Process values by Monte-Carlo probes."""
    return Strategy(
        name="process_value",
        generate=Sample(),
        filters={"advantage": StepAdvantage()},
        controls={"probes": Probes(steps=steps, samples=samples)},
        group_size=group_size,
    )
