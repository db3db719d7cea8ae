"""Trees whose unsure branches are cut."""

from gfcr.control.branch_prune import BranchPrune
from gfcr.filter.tree_advantage import TreeAdvantage
from gfcr.generate.entropy_tree import EntropyTree
from gfcr.strategy import Strategy


def pruned_tree(
    *,
    group_size: int = 6,
    forks: int = 2,
    rounds: int = 1,
    continuations: int = 2,
    window: int = 128,
    every: int = 16,
    warmup: int = 4,
    share: float = 0.1,
) -> Strategy:
    """TreeRL whose branches are cut when they are less sure than their siblings were.

    Paper: 2508.15260
    Formula: as treerl; abort a branch whose mean log-prob over `window` tokens, looked at `every`
        so many, is below the share-quantile of the lowest one of each ended sibling, from `warmup`
        of these on.
    Knobs: group_size (roots M), forks, rounds, continuations, window, every, warmup, share.
    Hurts: surprising branches, which the tree forks for, are the first to be cut.
    """
    return Strategy(
        name="pruned_tree",
        generate=EntropyTree(forks=forks, rounds=rounds, continuations=continuations),
        filters={"advantage": TreeAdvantage()},
        controls={
            "branch_prune": BranchPrune(window=window, every=every, warmup=warmup, share=share)
        },
        group_size=group_size,
    )
