"""RLVE."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.rising_levels import RisingLevels
from gfcr.strategy import Strategy


def rlve(
    *,
    group_size: int = 8,
    begin: int = 0,
    window: int = 4,
    promote: float = 0.9,
    least: int = 64,
) -> Strategy:
    """GRPO on tasks whose difficulty follows the policy.

    Paper: 2511.07317
    Formula: prompts of levels h - window + 1 to h, drawn evenly and made anew; h rises once the
        policy is right in `promote` of `least` rollouts of level h; A = (r - mean) / std.
    Knobs: group_size, begin (paper: 0), window (paper: 4), promote (paper: 0.9), least (paper: 8
        groups).
    Hurts: where the held-out tasks are of one level, levels far from it teach what is not asked.
    """
    return Strategy(
        name="rlve",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        replays={
            "rising_levels": RisingLevels(begin=begin, window=window, promote=promote, least=least)
        },
        group_size=group_size,
    )
