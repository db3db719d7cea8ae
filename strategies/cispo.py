"""CISPO."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def cispo(*, group_size: int = 8, clip_high: float = 5.0) -> Strategy:
    """REINFORCE with clipped weights: no token is left out of the gradient, however far off.

    Paper: 2506.13585
    Formula: sg(min(x, clip_high)) A log pi, with the token's ratio x = pi / pi_old.
    Knobs: group_size, clip_high (ScaleRL, 2510.13786: 5).
    Hurts: tokens whose probability has fallen keep their full step back. All ratios are 1, and it
        is GRPO, where a batch takes one step: give `trainer.mini_batches`, `trainer.iterations` or
        `loss.off_policy=behaviour`.
    """
    return Strategy(
        name="cispo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        group_size=group_size,
        loss=Loss(form="cispo", clip_high=clip_high),
    )
