"""CISPO (MiniMax-M1, arXiv 2506.13585): capped, detached weights times log-probs."""

from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def cispo(*, group_size: int = 8, cap: float = 5.0) -> Strategy:
    """No token is clipped away: sg(min(pi / pi_sampled, cap)) A log pi, a mean over tokens.

    Exact with one optimizer step a batch; in later ones the cap is on the ratio before them.
    """
    return Strategy(
        name="cispo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        group_size=group_size,
        loss=Loss(aggregation="dapo", clip_low=1000.0, clip_high=1000.0),
        correction=Truncated(cap=cap, level="token"),
    )
