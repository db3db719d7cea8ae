"""RLEP."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.rlep import Rlep
from gfcr.strategy import Strategy


def rlep(*, group_size: int = 16, num: int = 2, pool: str = "") -> Strategy:
    """GRPO whose groups are joined by right rollouts of an earlier run.

    Paper: 2507.07451
    Formula: G' = G fresh and `num` right rollouts of the pool; A = (r - mean) / std over G'.
    Knobs: group_size (paper: 16), num (paper: 2), pool (folder of the run that collected them;
        empty for this run's own earlier ones).
    Hurts: replayed tokens are taught as if they were the policy's own, as in the paper: far from it
        the ratio says nothing (steadier: `correction: {name: truncated}`).
    """
    return Strategy(
        name="rlep",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        replays={"rlep": Rlep(num=num, pool=pool)},
        group_size=group_size,
    )
