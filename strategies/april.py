"""APRIL."""

from gfcr.control.oversample import Oversample
from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.partial_rollouts import PartialRollouts
from gfcr.strategy import Strategy


def april(*, group_size: int = 8, factor: float = 2.0, max_staleness: int = 4) -> Strategy:
    """Active partial rollouts: begin more than needed, cut the tail, resume it next time.

    Paper: 2509.18521
    Formula: begin factor x B groups, partial ones first; train the first B to finish; A_i as GRPO,
        weighted by min(pi / pi_sampled, cap) token by token.
    Knobs: factor (paper: 64 for 32), max_staleness (paper: none), group_size (paper: 8).
    Hurts: tokens of older policies enter every update, most of them in the longest rollouts.
    """
    return Strategy(
        name="april",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"oversample": Oversample(factor=factor)},
        replays={"partial_rollouts": PartialRollouts(max_staleness=max_staleness)},
        group_size=group_size,
        correction=Truncated(),
    )
