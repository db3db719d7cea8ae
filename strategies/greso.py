"""GRESO."""

from gfcr.control.greso import Greso
from gfcr.control.refill import Refill
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def greso(
    *,
    group_size: int = 8,
    p_easy: float = 0.5,
    p_hard: float = 0.5,
    target: float = 0.25,
    oversample: float = 1.0,
    max_rounds: int = 10,
) -> Strategy:
    """Dynamic sampling that skips probably dead prompts before rolling them out.

    Paper: 2506.02177
    Formula: skip with probability 1 - max(p^z, 0.01) after z dead visits in a row; p adapts to a
        target share of dead groups; dead groups that come through are refilled; A_i as GRPO.
    Knobs: p_easy, p_hard, target, group_size (paper: 8), oversample (paper: 384 sampled for 256
        trained, 1.5; here 1, so that no group is cut), max_rounds.
    Hurts: in the first epoch it is dynamic sampling; it needs prompts that come back.
    """
    return Strategy(
        name="greso",
        generate=Sample(),
        filters={"zero_variance": ZeroVariance(), "advantage": GroupAdvantage(kind="grpo")},
        controls={
            "refill": Refill(max_rounds=max_rounds, oversample=oversample),
            "greso": Greso(p_easy=p_easy, p_hard=p_hard, target=target),
        },
        group_size=group_size,
        loss=Loss(clip_high=0.28, aggregation="dapo"),
    )
