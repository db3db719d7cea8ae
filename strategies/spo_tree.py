"""Segment policy optimization over trees."""

from gfcr.filter.sibling_advantage import SiblingAdvantage
from gfcr.generate.segment_tree import SegmentTree
from gfcr.strategy import Strategy


def spo_tree(
    *, group_size: int = 6, segment: int = 600, width: int = 6, depth: int = 3
) -> Strategy:
    """Trees of segments; each segment is compared with those that begin where it does.

    Paper: 2505.23564
    Formula: V(leaf) = its reward, V(s) = mean of V over the segments behind s; A(s) = (V(s) - mean
        V(siblings)) / (std + epsilon), for tokens of a probability up to 0.9; group_size x
        width^(depth - 1) leaves.
    Knobs: group_size (first segments, paper: 6), segment (tokens, paper: 600), width (paper: 6),
        depth (paper: 3).
    Hurts: answers shorter than a segment fork nowhere; 216 leaves of a prompt are far from
        independent, and a first segment is trained once per leaf below it. The authors train on a
        part of the segments, 512 an iteration; here all are.
    """
    return Strategy(
        name="spo_tree",
        generate=SegmentTree(segment=segment, width=width, depth=depth),
        filters={"advantage": SiblingAdvantage()},
        group_size=group_size,
    )
