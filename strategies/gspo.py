"""GSPO."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def gspo(*, group_size: int = 8, clip_low: float = 3e-4, clip_high: float = 4e-4) -> Strategy:
    """GRPO whose ratio is the rollout's: one weight, one clip for all of its tokens.

    Paper: 2507.18071
    Formula: s = (pi(y) / pi_old(y))^(1/|y|); min(s A, clip(s, 1 - clip_low, 1 + clip_high) A).
    Knobs: group_size, clip_low (paper: 3e-4), clip_high (paper: 4e-4).
    Hurts: a token far off leaves its whole rollout out of the update. All ratios are 1, and it
        is GRPO, where a batch takes one step: give `trainer.mini_batches`, `trainer.iterations` or
        `loss.off_policy=behaviour`.
    """
    return Strategy(
        name="gspo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        group_size=group_size,
        loss=Loss(level="sequence", aggregation="grpo", clip_low=clip_low, clip_high=clip_high),
    )
