"""Knapsack RL."""

from gfcr.control.knapsack import Knapsack
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def knapsack(*, group_size: int = 8, low: int = 2, high: int = 93) -> Strategy:
    """Divides the uniform budget of rollouts among prompts by what each is expected to teach.

    Paper: 2509.25849
    Formula: max sum_i (1 - p_i^N_i - (1-p_i)^N_i) p_i (1-p_i)^2 with sum N_i = K x prompts;
        A_i as GRPO within each group.
    Knobs: group_size (K, the uniform budget a prompt), low (paper: 2, third-party notes), high
        (paper: up to 93, third-party notes).
    Hurts: in the first epoch nothing is known and all is uniform; later a prompt with more rollouts
        also weighs more in a token-mean loss (the filter `equal_prompts` takes that back).
    """
    return Strategy(
        name="knapsack",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"knapsack": Knapsack(low=low, high=high)},
        group_size=group_size,
    )
