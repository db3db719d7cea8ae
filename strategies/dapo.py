"""DAPO."""

from gfcr.control.refill import Refill
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.soft_overlong import SoftOverlong
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def dapo(*, group_size: int = 8, max_rounds: int = 10, oversample: float = 1.0) -> Strategy:
    """Dynamic sampling, soft overlong punishment, clip-higher and token-level loss.

    Paper: 2503.14476
    Formula: refill until every group has 0 < accuracy < 1; A_i as GRPO; clip (0.2, 0.28).
    Knobs: group_size (paper: 16), max_rounds, oversample (common scripts: 3).
    Hurts: when few groups are in band an update costs several times the tokens.
    """
    return Strategy(
        name="dapo",
        generate=Sample(),
        filters={
            "zero_variance": ZeroVariance(),
            # It comes before the map, which makes advantages of it. Dead groups are told by the
            # verifier's rewards, so that none comes alive by its lengths alone.
            "soft_overlong": SoftOverlong(),
            "advantage": GroupAdvantage(kind="grpo"),
        },
        controls={"refill": Refill(max_rounds=max_rounds, oversample=oversample)},
        group_size=group_size,
        loss=Loss(clip_high=0.28, aggregation="dapo"),
    )
