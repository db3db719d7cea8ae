"""The length reward of Kimi k1.5."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.kimi_length import KimiLength
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def kimi_length(*, group_size: int = 8, weight: float = 1.0) -> Strategy:
    """Short right answers are paid for, long ones charged, relative to the prompt's others.

    Paper: 2501.12599
    Formula: r_i += weight l_i if right, weight min(0, l_i) if not, with
        l_i = 0.5 - (n_i - n_min) / (n_max - n_min); A_i = r_i - mean(r), not over the deviation,
        which would let length count in full where all answers are right.
    Knobs: group_size, weight.
    Hurts: from the first update on, as it slows learning: begin without it (weight 0), as the paper
        does.
    """
    return Strategy(
        name="kimi_length",
        generate=Sample(),
        filters={
            "length": KimiLength(weight=weight),
            "advantage": GroupAdvantage(kind="dr_grpo"),
        },
        group_size=group_size,
    )
