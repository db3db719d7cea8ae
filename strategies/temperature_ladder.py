"""Cold and hot samples side by side."""

from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.temperature_ladder import TemperatureLadder
from gfcr.strategy import Strategy


def temperature_ladder(*, group_size: int = 8, low: float = 0.8, high: float = 1.25) -> Strategy:
    """GRPO on groups whose samples have temperatures from cold to hot.

    Paper: none
    Formula: sample i of n at T (low + (high - low) i / (n - 1)); A = (r - mean) / std, weighted by
        min(pi / pi_sampled, cap) token by token.
    Knobs: group_size (GRPO's), low and high (ours).
    Hurts: hot samples are more often wrong for their heat than for their way; weights truncate.
    """
    return Strategy(
        name="temperature_ladder",
        generate=TemperatureLadder(low=low, high=high),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
        correction=Truncated(),
    )
