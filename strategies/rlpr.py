"""RLPR: reference probability reward, without a verifier."""

from gfcr.control.rlpr import Rlpr
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def rlpr(*, group_size: int = 8, marker: str = "#", debias: bool = True) -> Strategy:
    """GRPO on the probability that the policy gives the reference answer behind its reasoning.

    Paper: 2506.18254
    Formula: r = clip(mean_t p(y_t | x, z, y_<t) - mean_t p(y_t | x, y_<t), 0, 1) for the reference
        y and reasoning z; A_i as GRPO.
    Knobs: group_size (paper: 8), marker (what comes before an answer), debias (subtracts the
        probability without reasoning; paper: true).
    Hurts: where references can be worded in many ways; one more forward pass a rollout. The paper's
        filter, an adapted threshold on a group's standard deviation, is not part of it: groups
        without any variance are rejected.
    """
    return Strategy(
        name="rlpr",
        generate=Sample(),
        filters={"zero_variance": ZeroVariance(), "advantage": GroupAdvantage(kind="grpo")},
        controls={"rlpr": Rlpr(marker=marker, debias=debias)},
        group_size=group_size,
    )
