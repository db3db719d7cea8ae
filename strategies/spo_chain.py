"""Segment policy optimization along chains."""

from gfcr.control.segment_values import SegmentValues
from gfcr.filter.segment_advantage import SegmentAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def spo_chain(*, group_size: int = 8, samples: int = 9, interval: int = 5) -> Strategy:
    """Rollouts cut where they were decided; a segment is worth what it adds to the chances.

    Paper: 2505.23564
    Formula: a segment holds `interval` tokens of a probability below 0.9; V(begin) = mean reward of
        `samples` continuations; A = V(end) - V(begin), for those tokens alone.
    Knobs: group_size (ours), samples (MC rollouts a boundary, paper: 9), interval (paper: 5).
    Hurts: by its price: each boundary costs `samples` continuations.
    """
    return Strategy(
        name="spo_chain",
        generate=Sample(),
        # `segment_values` cuts by the same bound: only the tokens that decided are taught.
        filters={"advantage": SegmentAdvantage(unlikely=0.9)},
        controls={"segment_values": SegmentValues(samples=samples, interval=interval)},
        group_size=group_size,
    )
