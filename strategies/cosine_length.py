"""GRPO with the cosine length reward."""

from gfcr.filter.cosine_length import CosineLength
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def cosine_length(
    *,
    group_size: int = 8,
    right_short: float = 2.0,
    right_long: float = 1.0,
    wrong_short: float = -10.0,
    wrong_long: float = 0.0,
    cut: float = -10.0,
) -> Strategy:
    """Right answers earn more the shorter they are, wrong ones the longer they are.

    Paper: 2502.03373
    Formula: r = b + (a - b) (1 + cos(pi n / L)) / 2 with (a, b) = (right_short, right_long) or
        (wrong_short, wrong_long), and `cut` at the cap L; A_i as GRPO.
    Knobs: group_size, right_short (paper: 2), right_long (1), wrong_short (-10), wrong_long (0),
        cut (-10).
    Hurts: policies learn to fill up wrong answers; add `repetition_stop`.
    """
    return Strategy(
        name="cosine_length",
        generate=Sample(),
        filters={
            "length": CosineLength(
                right_short=right_short,
                right_long=right_long,
                wrong_short=wrong_short,
                wrong_long=wrong_long,
                cut=cut,
            ),
            "advantage": GroupAdvantage(kind="grpo"),
        },
        group_size=group_size,
    )
