"""GDPO."""

from gfcr.filter.gdpo import Gdpo
from gfcr.filter.within_length import WithinLength
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def gdpo(*, group_size: int = 8, limit: float = 0.5, right_only: bool = False) -> Strategy:
    """Several rewards, each normalised within the group by itself, then summed.

    Paper: 2601.05242
    Formula: A_i = sum over k of w_k (r_ik - mean_k) / (std_k + 1e-4), then (A - mean) / std over
        the batch. Rewards are the verifier's, or the experiment's named ones, and a length reward
        1[length <= limit x cap]; weights in filters.advantage.weights.
    Knobs: group_size, limit (share of the token cap), right_only (short but wrong is worth 0).
    Hurts: the length reward is as loud as being right, also where answers need the length.
    """
    return Strategy(
        name="gdpo",
        generate=Sample(),
        filters={
            "length": WithinLength(limit=limit, right_only=right_only),
            "advantage": Gdpo(),
        },
        group_size=group_size,
    )
