"""The noise floor: how far apart one arm's own seeds are, below which a difference says nothing.

Shape suffixes: `_SP` seeds by prompts, `_N` splits.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from gfcr.stats.interval import table
from gfcr.stats.paired import compare

_MOST_SPLITS = 200
_SEED = 20261120


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """Differences between two halves of one arm's seeds: an A/A study from finished runs."""

    seeds: int
    """The number of seeds in each half."""
    splits: int
    typical: float
    """The median size of the difference between the halves' means."""
    high: float
    """The size that one split in twenty exceeds. Two arms of all the seeds differ by 0.71 of it."""
    false_wins: float
    """The share of splits in which the paired test said p < 0.05."""


def noise_floor(scores: ArrayLike) -> NoiseFloor | None:
    """Compares an arm with itself; returns None below four seeds.

    Splits are all pairs of disjoint halves, or 200 seeded ones of them. Seeds of the halves are
    paired by their order, which removes nothing they share but the prompts: the floor is that of
    arms without common seeds, an upper bound for paired ones. Splits share runs, so that
    `false_wins` is a rough figure.

    Args:
        scores: `(S,)` or `(S, P)`.
    """
    scores_SP = table(scores)
    half = len(scores_SP) // 2
    if half < 2:
        return None
    splits = _splits(len(scores_SP), half=half)
    pairs = [(scores_SP[list(a)], scores_SP[list(b)]) for a, b in splits]
    sizes_N = np.array([abs(float(a.mean() - b.mean())) for a, b in pairs])
    wins = sum(compare(a, baseline=b).p_value < 0.05 for a, b in pairs)
    return NoiseFloor(
        seeds=half,
        splits=len(pairs),
        typical=float(np.median(sizes_N)),
        high=float(np.quantile(sizes_N, 0.95)),
        false_wins=wins / len(pairs),
    )


def _splits(seeds: int, *, half: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Returns pairs of disjoint sets of seeds; the one with the smallest seed comes first."""
    if seeds <= 9:
        return [
            (one, other)
            for one, other in combinations(combinations(range(seeds), half), 2)
            if not {*one} & {*other}
        ]
    rng = np.random.default_rng(_SEED)
    drawn = [rng.permutation(seeds).tolist() for _ in range(_MOST_SPLITS)]
    return [(tuple(order[:half]), tuple(order[half : 2 * half])) for order in drawn]
