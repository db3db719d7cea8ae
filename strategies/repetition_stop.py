"""GRPO that ends looping rollouts early."""

from gfcr.control.repetition_stop import RepetitionStop
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def repetition_stop(
    *, group_size: int = 8, max_period: int = 32, min_repeats: int = 4, min_tokens: int = 32
) -> Strategy:
    """GRPO whose rollouts are halted once their tail is a cycle.

    Paper: 2508.17445
    Formula: halt when the last max(min_repeats p, min_tokens) tokens have a period p <= max_period.
    Knobs: group_size, max_period, min_repeats, min_tokens.
    Hurts: where a right answer repeats itself; saves nothing when rollouts do not loop.
    """
    return Strategy(
        name="repetition_stop",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={
            "repetition_stop": RepetitionStop(
                max_period=max_period, min_repeats=min_repeats, min_tokens=min_tokens
            )
        },
        group_size=group_size,
    )
