"""RLOO."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def rloo(*, group_size: int = 8) -> Strategy:
    """REINFORCE leave-one-out: each rollout's baseline is the mean reward of the others.

    Paper: 2402.14740
    Formula: A_i = r_i - mean_{j != i}(r_j) = K / (K - 1) (r_i - mean(r)); one ratio a sequence.
    Knobs: group_size (paper: 2 and 4).
    Hurts: advantages are not scaled, so prompts near success rate 1/2 dominate the update; a
        sequence-level ratio clips long rollouts whole.
    """
    return Strategy(
        name="rloo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="rloo")},
        group_size=group_size,
        loss=Loss(estimator="rloo", aggregation="grpo"),
    )
