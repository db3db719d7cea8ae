"""PODS."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.pods import Pods
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def pods(*, group_size: int = 16, keep: int = 4) -> Strategy:
    """Rolls out many, trains on the few whose rewards vary most.

    Paper: 2504.13818
    Formula: keep argmax_{|S| = m} var(r_S); A_i = (r_i - mean(r_S)) / (std(r_S) + 1e-4).
    Knobs: group_size (paper: n = 128) and keep (paper: m = 32): the same quarter, at small scale.
    Hurts: saves training time only; the tokens of n - m rollouts are generated and not learnt from.
    """
    return Strategy(
        name="pods",
        generate=Sample(),
        # The order makes the statistics those of the kept: choose first, then map.
        filters={"pods": Pods(keep=keep), "advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
    )
