"""Reinforce-Ada."""

from typing import Literal

from gfcr.control.reinforce_ada import ReinforceAda
from gfcr.filter.balanced_subset import BalancedSubset
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def reinforce_ada(
    *,
    group_size: int = 8,
    keep: int = 8,
    max_rounds: int = 4,
    mode: Literal["balance", "positive"] = "balance",
) -> Strategy:
    """Samples a prompt in rounds until it has signal; trains on a balanced few of the pool.

    Paper: 2510.04996
    Formula: rounds of K until n/2 right and n/2 wrong (balance) or one right (positive); train n
        of the pool P with A_i = (r_i - mean(r_P)) / (std(r_P) + 1e-4).
    Knobs: group_size (rollouts a round; paper: 8), keep (n; paper: 8 of up to 32), max_rounds
        (paper: 4), mode.
    Hurts: up to max_rounds times the tokens, most of them on prompts that stay dead.
    """
    return Strategy(
        name="reinforce_ada",
        generate=Sample(),
        # The order makes the statistics those of all samples: map first, then choose.
        filters={
            "advantage": GroupAdvantage(kind="grpo"),
            "subset": BalancedSubset(keep=keep),
        },
        controls={"reinforce_ada": ReinforceAda(mode=mode, keep=keep, max_rounds=max_rounds)},
        group_size=group_size,
    )
