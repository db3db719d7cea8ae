"""SAPO."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def sapo(*, group_size: int = 8) -> Strategy:
    """GRPO with a soft gate in the place of the clip, narrower where the advantage is negative.

    Paper: 2511.20347
    Formula: (4 / t) sigmoid(t (x - 1)) A, t = 1 where A > 0, else 1.05.
    Knobs: group_size (both temperatures are TRL's, the paper's).
    Hurts: nothing bounds how far many small steps go. All ratios are 1, and it
        is GRPO, where a batch takes one step: give `trainer.mini_batches`, `trainer.iterations` or
        `loss.off_policy=behaviour`.
    """
    return Strategy(
        name="sapo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        group_size=group_size,
        loss=Loss(form="sapo", aggregation="grpo"),
    )
