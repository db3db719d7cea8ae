"""Which factor earned it: Shapley values of a gain, and an analysis of variance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import factorial, nan
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gfcr.errors import unknown_name
from gfcr.statistics import holm
from gfcr.statistics.interval import Table
from gfcr.statistics.scipy_stats import f_tail
from gfcr.studies.crossed import Crossed
from gfcr.studies.effects import Effect, corrected, effect_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance:
    """What one factor, or several together, explain of the differences between arms."""

    name: str
    """`size`, or `size x gate` for an interaction."""
    order: int
    df: int
    df_error: int
    f: float
    """NaN with one seed."""
    p_value: float
    p_adjusted: float
    """Holm-corrected for the number of terms."""
    share: float
    """Of the sum of squares between arms; shares add up to 1."""


def shapley(design: Crossed, *, arm: str | None = None) -> list[Effect]:
    """Splits an arm's gain over the reference arm among the factors.

    A factor's value is what switching it to the arm's level adds, averaged over all orders in which
    the factors could be switched (Shapley 1953); the values add up to the whole gain. Each is a
    fixed contrast of arms, taken seed by seed and prompt by prompt, with its paired interval.

    Args:
        design: the scores.
        arm: whose gain; None takes the arm with the highest mean, which flatters its gain a little:
            it was chosen by the same scores.

    Raises:
        ConfigError: no arm of this name, or the design is not fully crossed.
    """
    design.need_full()
    best = max(design.scores, key=lambda name: float(design.scores[name].mean()))
    chosen = best if arm is None else arm
    levels = {name: dict(pairs) for pairs, name in design.arms.items()}
    if chosen not in levels:
        raise unknown_name(chosen, kind="arm", allowed=levels)
    changed = {f: x for f in design.factors if (x := levels[chosen][f]) != design.reference[f]}
    return corrected(
        [
            effect_of(_value(design, factor, changed), name=f"{factor}={level}", order=1)
            for factor, level in changed.items()
        ]
    )


def anova(design: Crossed) -> list[Variance]:
    """Returns every main effect and interaction, of all orders, with its F test.

    Repeated measures: each seed runs every arm, and a term is tested against its own interaction
    with the seeds (as `statsmodels`' `AnovaRM`, whose numbers these are). Scores are means over the
    held-out prompts, which are taken as given.

    Raises:
        ConfigError: the design is not fully crossed.
    """
    design.need_full()
    means = design.means()
    terms = [_term(means, axes) for axes in _subsets(range(1, means.ndim))]
    total = sum(t.share for t in terms)
    adjusted = holm([t.p_value for t in terms])
    names = list(design.factors)
    return [
        replace(
            t,
            name=" x ".join(names[int(axis) - 1] for axis in t.name.split()),
            p_adjusted=p,
            share=t.share / total if total else nan,
        )
        for t, p in zip(terms, adjusted, strict=True)
    ]


def _value(design: Crossed, factor: str, changed: Mapping[str, str]) -> Table:
    """The factor's Shapley value, seeds by prompts."""
    others = [f for f in changed if f != factor]
    value = np.zeros_like(design.at(design.reference))
    for switched in chain([()], _subsets(others)):
        before = {**design.reference, **{f: changed[f] for f in switched}}
        rest = len(changed) - len(switched) - 1
        weight = factorial(len(switched)) * factorial(rest) / factorial(len(changed))
        added = design.at({**before, factor: changed[factor]}) - design.at(before)
        value = value + weight * added
    return value


def _term(means: NDArray[np.float64], axes: Sequence[int]) -> Variance:
    """One term, its name the axes of its factors and its share the sum of squares."""
    part = means
    for axis in range(1, means.ndim):
        mean = part.mean(axis, keepdims=True)
        part = part - mean if axis in axes else mean
    seeds, repeats = len(means), means[0].size / part[0].size
    effect = part.mean(0)
    df = int(np.prod([means.shape[axis] - 1 for axis in axes]))
    squares = seeds * repeats * float((effect**2).sum())
    error = repeats * float(((part - effect) ** 2).sum())
    df_error = df * (seeds - 1)
    f, p_value = nan, 1.0
    if seeds > 1 and error > 0:
        f = (squares / df) / (error / df_error)
        p_value = f_tail(f, df=df, df_error=df_error)
    return Variance(
        name=" ".join(map(str, axes)),
        order=len(axes),
        df=df,
        df_error=df_error,
        f=f,
        p_value=p_value,
        p_adjusted=p_value,
        share=squares,
    )


def _subsets(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Every subset but the empty one, small ones first."""
    return chain.from_iterable(combinations(items, n + 1) for n in range(len(items)))
