"""VESPO."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def vespo(*, group_size: int = 8) -> Strategy:
    """REINFORCE weighed by a smooth function of the rollout's ratio, detached.

    Paper: 2602.10693
    Formula: sg(phi(W)) A log pi, W = pi(y) / pi_old(y), phi(W) = W^k exp(lambda (1 - W)).
    Knobs: group_size (k and lambda are TRL's).
    Hurts: the ratio is of the whole rollout: long ones soon weigh nothing. All ratios are 1, and it
        is GRPO, where a batch takes one step: give `trainer.mini_batches`, `trainer.iterations` or
        `loss.off_policy=behaviour`.
    """
    return Strategy(
        name="vespo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        group_size=group_size,
        loss=Loss(form="vespo"),
    )
