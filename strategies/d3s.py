"""D3S."""

from gfcr.correction.d3s import D3s as Tokens
from gfcr.filter.d3s import D3s
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def d3s(*, group_size: int = 8, updates: int = 100) -> Strategy:
    """GRPO on the most varied rollouts and their weightiest tokens, few at first.

    Paper: 2509.22115
    Formula: A_i as GRPO; of each group the subset of largest variance of A, of the update the K% of
        tokens with the largest |A_t| H_t; both grow from tight to loose.
    Knobs: group_size, updates (over which the subsets grow: 4 to 8 rollouts, 10 to 20% of tokens).
    Hurts: it saves updates and not rollouts; what the policy is sure of is never corrected.
    """
    return Strategy(
        name="d3s",
        generate=Sample(),
        # The order makes the advantages those of all rollouts: map first, then choose.
        filters={"advantage": GroupAdvantage(kind="grpo"), "d3s": D3s(updates=updates)},
        correction=Tokens(updates=updates),
        group_size=group_size,
    )
