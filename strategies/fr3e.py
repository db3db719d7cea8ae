"""FR3E."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.modulated_advantage import ModulatedAdvantage
from gfcr.generate.entropy_tree import EntropyTree
from gfcr.strategy import Strategy


def fr3e(*, group_size: int = 1, places: int = 4, rollouts: int = 4) -> Strategy:
    """A base rollout, explored anew from where it was least sure.

    Paper: 2507.07017
    Formula: `places` tokens of the base with the highest -log p (the paper: entropy); `rollouts`
        from before each; A = (r - mean) / std over all, times exp(-(V_j - V_(j-1))) behind place j.
    Knobs: group_size (base rollouts, ours: 1), places (ours: 4), rollouts (ours: 4).
    Hurts: where the base is short, all places lie together; its own luck decides what is explored.
    """
    return Strategy(
        name="fr3e",
        generate=EntropyTree(forks=places, rounds=1, continuations=rollouts),
        filters={"advantage": GroupAdvantage(kind="grpo"), "modulated": ModulatedAdvantage()},
        group_size=group_size,
    )
