"""Division of a batch's decoding into bands of tokens, by the lengths of earlier rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from gfcr.speculation.cost import PassCost

Counts = NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The decoding of tokens `begin` to `end` of each rollout."""

    begin: int
    end: int
    work_s: float
    running: float
    """Mean number of rollouts in a forward pass."""


def bands(lengths_N: Counts, *, edges: Sequence[int], cost: PassCost) -> list[Band]:
    """Cuts a batch that decodes all rollouts together: pass t has those longer than t tokens.

    Args:
        lengths_N: tokens of each rollout.
        edges: token counts where bands meet; edges that no rollout reaches are ignored.
        cost: cost of a forward pass.
    """
    longest = int(lengths_N.max())
    running_T = np.array([(lengths_N > t).sum() for t in range(longest)])
    cuts = sorted({0, *(edge for edge in edges if 0 < edge < longest), longest})
    return [
        Band(
            begin=begin,
            end=end,
            work_s=cost.seconds(passes=end - begin, tokens=float(running_T[begin:end].sum())),
            running=float(running_T[begin:end].mean()),
        )
        for begin, end in pairwise(cuts)
    ]
