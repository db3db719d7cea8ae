"""RLPR: reference probability reward, without a verifier."""

from gfcr.control.rlpr import Rlpr
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.reward_spread import RewardSpread
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def rlpr(*, group_size: int = 8, marker: str = "#", debias: bool = True) -> Strategy:
    """GRPO on the probability that the policy gives the reference answer behind its reasoning.

    Paper: 2506.18254
    Formula: r = clip(mean_t p(y_t | x, z, y_<t) - mean_t p(y_t | x, y_<t), 0, 1) for the reference
        y and reasoning z; A_i as GRPO. From update 11 on groups with std(r) < 0.5 x its moving
        average over all groups are rejected, and those with std(r) = 0 always.
    Knobs: group_size (paper: 8), marker (what comes before an answer), debias (subtracts the
        probability without reasoning; paper: true).
    Hurts: where references can be worded in many ways; one more forward pass a rollout.
    """
    return Strategy(
        name="rlpr",
        generate=Sample(),
        filters={
            # It comes first, as the paper's average is over all groups, dead ones included.
            "reward_spread": RewardSpread(),
            "zero_variance": ZeroVariance(),
            "advantage": GroupAdvantage(kind="grpo"),
        },
        controls={"rlpr": Rlpr(marker=marker, debias=debias)},
        group_size=group_size,
    )
