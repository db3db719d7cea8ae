"""VIP."""

from typing import Literal

from gfcr.control.vip import Vip
from gfcr.filter.equal_prompts import EqualPrompts
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def vip(
    *,
    group_size: int = 8,
    low: int = 3,
    high: int = 32,
    kind: Literal["rloo", "dr_grpo"] = "rloo",
) -> Strategy:
    """Divides the uniform budget of rollouts so that the variance of the gradient is least.

    Paper: 2602.01601
    Formula: min sum_i v(n_i) p_i (1-p_i) with sum n_i = K x prompts, v(n) = 1/(n-1) (rloo) or
        (n-1)/n^2 (dr_grpo), p by a Gaussian process over prompts; each prompt counts alike.
    Knobs: group_size (K; paper: budgets of 8 and 16 a prompt, third-party notes), low and high
        (bounds of n_i; ours), kind (of the advantages; paper: both).
    Hurts: where prompts of success rate 1/2 are not those worth learning. Here the features of
        prompts are hashed n-grams, not a sentence encoder's: p may be little more than the mean.
    """
    return Strategy(
        name="vip",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind=kind), "equal_prompts": EqualPrompts()},
        controls={"vip": Vip(kind=kind, low=low, high=high)},
        group_size=group_size,
        loss=Loss(aggregation="dr_grpo"),
    )
