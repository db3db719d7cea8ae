"""GFPO."""

from typing import Literal

from gfcr.filter.gfpo import Gfpo
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def gfpo(
    *,
    group_size: int = 16,
    keep: int = 8,
    metric: Literal["shortest", "efficiency"] = "shortest",
) -> Strategy:
    """Samples more to think less: GRPO on the shortest, or most efficient, few of a group.

    Paper: 2508.09726
    Formula: S = the k of G with the fewest tokens, or the most reward a token; A_i = (r_i -
        mean(r_S)) / (std(r_S) + 1e-4) for i in S, the others are left out.
    Knobs: group_size (G), keep (k), metric.
    Hurts: where only long answers are right the kept ones are wrong alike and teach nothing.
    """
    return Strategy(
        name="gfpo",
        generate=Sample(),
        # The order makes the statistics those of the kept: choose first, then map.
        filters={
            "gfpo": Gfpo(keep=keep, metric=metric),
            "advantage": GroupAdvantage(kind="grpo"),
        },
        group_size=group_size,
    )
