"""A batch's decoding, cut into bands of tokens, from the lengths that rollouts had before."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gfcr.speculation.budget import PassCost

Counts = NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Decoding between two numbers of tokens a rollout."""

    begin: int
    end: int
    work_s: float
    running: float
    """Rollouts in a forward pass, mean."""


def quantile_edges(lengths_N: Counts, *, shares: Sequence[float]) -> list[int]:
    """Numbers of tokens at which these shares of the rollouts have ended, for `bands`."""
    found: Any = np.quantile(lengths_N, [*shares], method="inverted_cdf")
    return sorted({int(edge) for edge in found})


def bands(lengths_N: Counts, *, edges: Sequence[int], cost: PassCost) -> list[Band]:
    """Cuts a batch that decodes all rollouts together: pass t has those longer than t tokens.

    Args:
        lengths_N: tokens of each rollout.
        edges: where bands meet, ascending; those that no rollout reaches make no band.
        cost: of a forward pass.
    """
    longest = int(lengths_N.max())
    running_T = np.array([(lengths_N > t).sum() for t in range(longest)])
    cuts = [0, *(edge for edge in edges if 0 < edge < longest), longest]
    return [
        Band(
            begin=begin,
            end=end,
            work_s=cost.seconds(passes=end - begin, tokens=float(running_T[begin:end].sum())),
            running=float(running_T[begin:end].mean()),
        )
        for begin, end in pairwise(cuts)
    ]
