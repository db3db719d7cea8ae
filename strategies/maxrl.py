"""MaxRL."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def maxrl(*, group_size: int = 8) -> Strategy:
    """GRPO that divides by the mean reward: right answers count for more the rarer they are.

    Paper: 2602.02710
    Formula: A_i = (r_i - mean(r)) / mean(r), 0 where the mean is not positive; where there are
        rewards below 0 the divisor is at least max(r) / n.
    Knobs: group_size: the larger, the nearer to maximum likelihood, the gradient of log p where p
        is the prompt's rate of right answers (1: that of p).
    Hurts: one lucky guess of n weighs n - 1; rewards other than right and wrong, whose zero is
        arbitrary, change what it does.
    """
    return Strategy(
        name="maxrl",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="maxrl")},
        group_size=group_size,
    )
