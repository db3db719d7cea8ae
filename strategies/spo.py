"""SPO, single-stream."""

from typing import Literal

from gfcr.filter.single_stream import SingleStream
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def spo(
    *, group_size: int = 1, forget: Literal["gap", "lag"] = "gap", looked_at: int = 4
) -> Strategy:
    """Single-stream policy optimization: no groups, a tracked value per prompt as the baseline.

    Paper: 2509.13232
    Formula: A = (r - v(x)) normalised over the batch; v a Beta tracker whose evidence is forgotten
        by rho = 2^(-D / D_half), D how far the policy moved; prompts by sqrt(v (1 - v)) + .05.
    Knobs: group_size (paper: 1), forget (by the policy's gap or by updates), looked_at
        (candidates for each prompt taken).
    Hurts: on prompts seen for the first time its baseline is 1/2, whatever they are.
    """
    tracker = SingleStream(forget=forget, looked_at=looked_at)
    return Strategy(
        name="spo", generate=Sample(), filters={"single_stream": tracker}, group_size=group_size
    )
