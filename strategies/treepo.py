"""TreePO."""

from gfcr.control.repetition_stop import RepetitionStop
from gfcr.filter.subgroup_advantage import SubgroupAdvantage
from gfcr.filter.whitened import Whitened
from gfcr.generate.fallback_tree import FallbackTree
from gfcr.strategy import Strategy


def treepo(
    *,
    group_size: int = 16,
    segment: int = 512,
    divide: int = 2,
    first_low: int = 2,
    first_high: int = 8,
) -> Strategy:
    """Paths that divide segment by segment, each compared with all subtrees it belongs to.

    Paper: 2508.17445
    Formula: A = mean over subgroups G_0 > G_1 > ... of r - mean r(G_j), whitened over the batch's
        tokens; prefixes are generated once, and ended paths are gone back from.
    Knobs: group_size (paper: 16), segment (paper: 512, answers of up to 14), divide (paper: 2),
        first_low and first_high (paths to begin with, paper: 2 to 8).
    Hurts: a segment waits for all paths of its prompt; leaves of a tree explore less than as many
        independent rollouts.
    """
    return Strategy(
        name="treepo",
        generate=FallbackTree(
            segment=segment, divide=divide, first_low=first_low, first_high=first_high
        ),
        filters={"advantage": SubgroupAdvantage(), "whitened": Whitened()},
        controls={"repetition_stop": RepetitionStop()},
        group_size=group_size,
    )
