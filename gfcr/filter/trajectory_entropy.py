"""Prefers rollouts that the policy was surer, or less sure, of."""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal, final

import numpy as np

from gfcr.filter._choice import chosen, weighed
from gfcr.stages import Filter, View
from gfcr.types import Group, Rollout
from gfcr.values.ranges import Finite, Positive, SomeShare


@final
@dataclass(kw_only=True)
class TrajectoryEntropy(Filter):
    """Keeps or weighs rollouts by s_i, the mean of -log pi over the tokens sampled, in nats.

    Its mean over rollouts estimates the entropy of the policy a token. Of the m rollouts looked at
        keep     the ceil(share m) of the lowest (or highest) s_i; the others are rejected;
        weight   w_i = m softmax(-s / temperature)_i (+s for `high`), 1 in the mean.
    ExGRPO picks the right answers that it replays by their lowest entropy. Put it behind the
    advantage map, for the mean reward to stay the group's. s_i is the score `surprisal`, of the
    distribution sampled from, temperature included.

    Hurts exploration with `low`: what the policy is sure of already is made surer.
    """

    paper: ClassVar[str] = "2510.02245"
    cell: ClassVar[str] = "F5.6"
    origin: ClassVar[str] = "ours"
    gives_advantages = False

    how: Literal["keep", "weight"] = "keep"
    prefer: Literal["low", "high"] = "low"
    of: Literal["right", "all"] = "right"
    """Which are looked at; the others stay as they are."""
    share: SomeShare = 0.5
    """Of those looked at, for `keep`."""
    temperature: Positive = 0.1
    """Nats, for `weight`."""
    threshold: Finite = 0.7
    """Reward from which a rollout is right."""

    def apply(self, group: Group, *, view: View) -> Group:
        surprisals = list(map(_surprisal, group.rollouts))
        group = group.with_scores("surprisal", surprisals)
        which = chosen(group, of=self.of, threshold=self.threshold)
        if not which:
            return group
        sign = 1.0 if self.prefer == "low" else -1.0
        costs = sign * np.array([surprisals[i] for i in which])
        if self.how == "keep":
            # Float noise in the product must not keep one rollout more.
            order: list[int] = np.argsort(costs, kind="stable").tolist()
            others = order[ceil(self.share * len(which) - 1e-9) :]
            return group.reject_rollouts([which[i] for i in others], reason="trajectory_entropy")
        # The smallest cost is taken off, so that the largest term is 1 and none overflows.
        weights = np.exp((costs.min() - costs) / self.temperature)
        return weighed(group, which, (len(which) * weights / weights.sum()).tolist())


def _surprisal(rollout: Rollout) -> float:
    sampled = rollout.logprobs_T[rollout.mask_T]
    return -float(sampled.mean(dtype=np.float64)) if len(sampled) else 0.0
