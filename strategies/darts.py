"""DARTS."""

from gfcr.control.darts import Darts
from gfcr.filter.dual_end import DualEnd
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def darts(
    *,
    group_size: int = 8,
    shortest: int = 4,
    longest: int = 4,
    redundancy: float = 0.5,
    prune: float = 0.5,
) -> Strategy:
    """Redundant rollouts where lengths vary, the tail cut; trains the shortest and the longest.

    Paper: 2605.30859
    Formula: begin M' in [M, 2M] by the variance of lengths at the last visit; abort the last
        floor(prune (M' - M)); keep `shortest` and `longest` of the others; A_i as GRPO of these.
    Knobs: group_size (M), shortest, longest, redundancy (mean of M'/M - 1), prune.
    Hurts: where long answers are the right ones; costs tokens where generation is not bound by
        its tail.
    """
    return Strategy(
        name="darts",
        generate=Sample(),
        filters={
            # The order makes the statistics those of the kept: choose first, then map.
            "dual_end": DualEnd(shortest=shortest, longest=longest),
            "advantage": GroupAdvantage(kind="grpo"),
        },
        controls={"darts": Darts(redundancy=redundancy, prune=prune)},
        group_size=group_size,
    )
