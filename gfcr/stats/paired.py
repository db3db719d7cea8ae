"""Compares two arms that ran with the same seeds on the same prompts, and gives a verdict.

The noise floor is how far apart one arm's own seeds are, below which a difference says nothing.

Shape suffixes: `_S` one entry per seed, `_SP` seeds by prompts, `_N` splits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gfcr.stats.interval import Interval, Mean, Table, gaps, mean_error, table
from gfcr.stats.scipy_stats import t_quantile
from gfcr.stats.share import bounds_of

_MOST_SPLITS = 200
_SEED = 20261120

Verdict: TypeAlias = Literal["better", "worse", "equivalent", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The difference of an arm and its baseline, over the seeds that both have."""

    pairs: int
    difference: Interval
    """The 95 % interval; the limits are NaN with one pair, infinite where the error is unknown."""
    inner: Interval
    """The interval of two one-sided tests: inside the margin, it proves equivalence. At their level
    of 5 % it is the 90 % interval, wider between shares by what so many prompts may have missed."""
    p_value: float
    """The two-sided p-value of no difference; 1 with one pair."""
    detectable: float
    """The smallest difference found with 80 % power at this error; NaN without an error."""
    improves: float
    """The probability that a run of the arm beats a run of the baseline."""


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


def compare(arm: ArrayLike, *, baseline: ArrayLike, span: float | None = None) -> Comparison:
    """Compares paired scores `(S,)` or `(S, P)`, same seeds and prompts in the same order.

    The difference is taken cell by cell, which removes what seeds and prompts share; its error is
    `mean_error`'s, its p-value that of t = difference / error. The detectable difference is
    (t_0.975 + t_0.8) * error.

    Args:
        arm: the arm's scores.
        baseline: the baseline's scores.
        span: largest size that a difference can have: 1 between shares. None takes 1 if all these
            scores lie in [0, 1], and infinity if not.
    """
    arm_SP, baseline_SP = table(arm), table(baseline)
    assert arm_SP.shape == baseline_SP.shape, "paired scores have one shape"
    improves = probability_of_improvement(arm_SP.mean(1), over=baseline_SP.mean(1))
    pairs = len(arm_SP)
    if pairs < 2:
        only = Interval(value=float((arm_SP - baseline_SP).mean()), low=np.nan, high=np.nan)
        return Comparison(
            pairs=pairs,
            difference=only,
            inner=only,
            p_value=1.0,
            detectable=np.nan,
            improves=improves,
        )
    mean = paired_mean(arm_SP, baseline_SP=baseline_SP, span=span)
    quantiles = t_quantile(0.975, df=mean.df) + t_quantile(0.8, df=mean.df)
    return Comparison(
        pairs=pairs,
        difference=mean.interval(),
        inner=mean.inner(level=0.05),
        p_value=mean.p_value(),
        detectable=quantiles * mean.error or np.nan,
        improves=improves,
    )


def paired_mean(arm_SP: Table, *, baseline_SP: Table, span: float | None) -> Mean:
    """Returns the mean difference, S >= 2; one that is only rounding is 0. See `compare`."""
    if span is None:
        low, high = bounds_of(arm_SP, baseline_SP)
        span = high - low
    scale = float(max(np.abs(arm_SP).max(), np.abs(baseline_SP).max()))
    return mean_error(gaps(arm_SP, other=baseline_SP), span=span, scale=scale)


def judge(comparison: Comparison, *, p_value: float, margin: float) -> Verdict:
    """Returns the verdict on a difference.

    better, worse: `p_value` < 0.05. equivalent: two one-sided tests at 5 % (Schuirmann 1987), that
    is, the inner interval lies inside +-margin. Otherwise inconclusive, as always with one pair.

    Args:
        comparison: the difference between arm and baseline.
        p_value: its p-value, corrected for the number of arms compared (`holm`).
        margin: largest difference that would not matter, in the unit of the scores.
    """
    if comparison.pairs < 2:
        return "inconclusive"
    if p_value < 0.05:
        return "better" if comparison.difference.value > 0 else "worse"
    inside = -margin < comparison.inner.low and comparison.inner.high < margin
    return "equivalent" if inside else "inconclusive"


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted for their number (Holm 1979): p_(i) * (k - i), made monotone."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return adjusted


def probability_of_improvement(arm: ArrayLike, *, over: ArrayLike) -> float:
    """Returns P(X > Y) + P(X = Y) / 2 over all pairs of runs, averaged over tasks.

    Mann-Whitney; arXiv 2108.13264, equal to `rliable.metrics.probability_of_improvement`.

    Args:
        arm: scores `(R,)`, or `(R, T)` runs by tasks.
        over: the other arm's scores, of the same tasks and any number of runs.
    """
    gaps_RRT = gaps(table(arm)[:, None], other=table(over)[None])
    return float((np.sign(gaps_RRT) / 2 + 0.5).mean())


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
