"""GRPO, the baseline."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def grpo(*, group_size: int = 8) -> Strategy:
    """Group Relative Policy Optimization: n rollouts a prompt, rewards compared within the group.

    Paper: 2402.03300
    Formula: A_i = (r_i - mean(r)) / (std(r) + 1e-4).
    Knobs: group_size.
    Hurts: groups with equal rewards cost tokens and teach nothing.
    """
    return Strategy(
        name="grpo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
    )
