"""Dr. GRPO."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def dr_grpo(*, group_size: int = 8) -> Strategy:
    """GRPO without its two biases: no division by the deviation, nor by a rollout's length.

    Paper: 2503.20783
    Formula: A_i = r_i - mean(r); token losses are summed and divided by a constant.
    Knobs: group_size (paper: 8).
    Hurts: very easy and very hard prompts, whose deviation is small, lose the weight GRPO gives
        them; the step size depends on the constant (the token cap), so retune the learning rate.
    """
    return Strategy(
        name="dr_grpo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="dr_grpo")},
        group_size=group_size,
        loss=Loss(aggregation="dr_grpo"),
    )
