"""Attributes gains to factors: Shapley values of a gain, and an analysis of variance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import factorial, nan

import numpy as np
from numpy.typing import NDArray

from gfcr.errors import unknown_name
from gfcr.stats import holm
from gfcr.stats.interval import FLOOR, ROUNDING, Table
from gfcr.stats.scipy_stats import stats
from gfcr.studies.crossed import Crossed
from gfcr.studies.effects import Effect, corrected, effect_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance:
    """The share of the differences between arms that one factor, or several together, explain."""

    name: str
    """The term's name: `size`, or `size x gate` for an interaction."""
    order: int
    df: int
    df_error: int
    f: float
    """The F statistic; NaN with one seed."""
    p_value: float
    p_adjusted: float
    """The p-value, Holm-corrected for the number of terms."""
    share: float
    """The share of the sum of squares between arms; the shares of all terms add up to 1."""


def shapley(design: Crossed, *, arm: str | None = None) -> list[Effect]:
    """Splits an arm's gain over the reference arm among the factors.

    A factor's value is what switching it to the arm's level adds, averaged over all orders in which
    the factors could be switched (Shapley 1953); the values add up to the whole gain. Each is a
    fixed contrast of arms, taken seed by seed and prompt by prompt, with its paired interval.

    Args:
        design: the scores.
        arm: the arm whose gain is split; None takes the arm with the highest mean, which flatters
            its gain a little: it was chosen by the same scores.

    Raises:
        ConfigError: there is no arm of this name, or the design is not fully crossed.
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
            effect_of(
                _shapley_value(design, factor, changed, on=True),
                less=_shapley_value(design, factor, changed, on=False),
                name=f"{factor}={level}",
                order=1,
                span=design.span,
            )
            for factor, level in changed.items()
        ]
    )


def anova(design: Crossed) -> list[Variance]:
    """Returns every main effect and interaction, of all orders, with its F test.

    Repeated measures: each seed runs every arm, and a term is tested against its own interaction
    with the seeds (as `statsmodels`' `AnovaRM`, whose numbers these are). Scores are means over the
    held-out prompts, which are taken as given; the error is not let below `FLOOR` of what the
    residual between prompts gives it, as in `gfcr.stats.interval`.

    Raises:
        ConfigError: the design is not fully crossed.
    """
    design.need_full()
    answers = design.answers()
    names = [*design.factors]
    terms = [_term(answers, names=names, chosen=chosen) for chosen in _subsets(names)]
    total = sum(t.share for t in terms)
    adjusted = holm([t.p_value for t in terms])
    return [
        replace(t, p_adjusted=p, share=t.share / total if total else nan)
        for t, p in zip(terms, adjusted, strict=True)
    ]


def _shapley_value(design: Crossed, factor: str, changed: Mapping[str, str], *, on: bool) -> Table:
    """Returns the mean score, seeds by prompts, over all orders in which factors are switched.

    `on` takes it just after the factor's turn, else just before.
    """
    others = [f for f in changed if f != factor]
    value = np.zeros_like(design.at(design.reference))
    for switched in chain([()], _subsets(others)):
        here = {**design.reference, **{f: changed[f] for f in (*switched, *[factor] * on)}}
        rest = len(changed) - len(switched) - 1
        weight = factorial(len(switched)) * factorial(rest) / factorial(len(changed))
        value = value + weight * design.at(here)
    return value


def _term(answers: NDArray[np.float64], *, names: Sequence[str], chosen: Sequence[str]) -> Variance:
    """Returns the term of some of the factors, with the sum of squares as share."""
    part = answers
    for axis, name in enumerate(names, start=1):
        mean = part.mean(axis, keepdims=True)
        part = part - mean if name in chosen else mean
    means = part.mean(-1)
    seeds, repeats = len(means), answers[0, ..., 0].size / means[0].size
    effect = means.mean(0)
    df = int(np.prod([size - 1 for size in effect.shape if size > 1]))
    squares = seeds * repeats * float((effect**2).sum())
    df_error = df * (seeds - 1)
    f, p_value = nan, 1.0
    if seeds > 1:
        error = repeats * float(((means - effect) ** 2).sum()) / df_error
        error = max(error, FLOOR * repeats * _between_prompts(part) / df_error)
        if error > (ROUNDING * float(np.abs(answers).max())) ** 2:
            f = (squares / df) / error
            p_value = float(stats.f.sf(f, df, df_error))
    return Variance(
        name=" x ".join(chosen),
        order=len(chosen),
        df=df,
        df_error=df_error,
        f=f,
        p_value=p_value,
        p_adjusted=p_value,
        share=squares,
    )


def _between_prompts(part: NDArray[np.float64]) -> float:
    """Returns the sum of squares between seeds that the residual alone gives prompts' means."""
    prompts = part.shape[-1]
    if prompts == 1:
        return 0.0
    residual = part - part.mean(-1, keepdims=True)
    residual = residual - residual.mean(0)
    return float((residual**2).sum()) / ((prompts - 1) * prompts)


def _subsets(items: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields every subset but the empty one, small ones first."""
    return chain.from_iterable(combinations(items, n + 1) for n in range(len(items)))
