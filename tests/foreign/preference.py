"""Online DPO: of each group the best answer is preferred to the worst (2305.18290)."""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from gfcr.generate.sample import Sample
from gfcr.stages import Filter, View
from gfcr.strategy import Strategy
from gfcr.types import Group, Loss


@final
@dataclass(kw_only=True)
class BestAndWorst(Filter):
    """Advantage 1 to the first of the best rewards, -1 to the first of the worst; no others."""

    gives_advantages = True
    pairs: int = field(init=False, default=0)

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        rewards = np.where(group.kept_N, group.rewards_N, np.nan)
        if np.nanmax(rewards) == np.nanmin(rewards):
            return group.reject("no_preference")
        best, worst = int(np.nanargmax(rewards)), int(np.nanargmin(rewards))
        self.pairs += 1
        others = [i for i in range(len(group.rollouts)) if i not in (best, worst)]
        signs = [1.0 if i == best else -1.0 for i in range(len(group.rollouts))]
        return group.with_advantages(signs).reject_rollouts(others, reason="neither")

    def metrics(self) -> dict[str, float]:
        """Pairs made so far."""
        return {"pairs": float(self.pairs)}


def preference(*, group_size: int = 4, beta: float = 0.1) -> Strategy:
    """Online DPO."""
    return Strategy(
        name="preference",
        generate=Sample(),
        filters={"pair": BestAndWorst()},
        loss=Loss(estimator="dpo", beta=beta),
        group_size=group_size,
    )
