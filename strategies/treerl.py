"""TreeRL: on-policy tree search with process rewards from the tree."""

from gfcr.filter.tree_advantage import TreeAdvantage
from gfcr.generate.entropy_tree import EntropyTree
from gfcr.strategy import Strategy


def treerl(
    *, group_size: int = 6, forks: int = 2, rounds: int = 1, continuations: int = 2
) -> Strategy:
    """Trees forked at surprising tokens; each segment is compared with the root and its parent.

    Paper: 2506.11902
    Formula: A(s) = (2 V(s) - V(root) - V(parent)) / sqrt(leaves below s); M (1 + N L T) leaves.
    Knobs: group_size (roots M, paper: 6), forks (N), rounds (L), continuations (T).
    Hurts: on short completions; leaves of a tree are correlated, so 30 leaves explore less than 30
        independent rollouts; a trunk is trained once per leaf, which costs training time.
    """
    return Strategy(
        name="treerl",
        generate=EntropyTree(forks=forks, rounds=rounds, continuations=continuations),
        filters={"advantage": TreeAdvantage()},
        group_size=group_size,
    )
