"""Main effects and interactions of a crossed design.

Each is a contrast of the arms' held-out scores, taken seed by seed and prompt by prompt, so that it
has the paired test and interval of any comparison. Shape suffix: `_SP` seeds by prompts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

import numpy as np

from gfcr.errors import ConfigError
from gfcr.leaderboard.measure import scores_of, shared_prompts
from gfcr.statistics import Interval, compare, holm
from gfcr.statistics.interval import Table
from gfcr.tracking.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a level, or two levels together, add to the held-out score."""

    name: str
    """`size=large`, or `size=large x gate=alive` for an interaction."""
    order: int
    """1 for a main effect, 2 for an interaction."""
    seeds: int
    difference: Interval
    """95 % interval; the limits are NaN with one seed."""
    p_value: float
    p_adjusted: float
    """Holm-corrected for the number of effects."""


def effects(
    arms: Mapping[str, Sequence[RunRecord]], *, levels: Mapping[str, Mapping[str, str]]
) -> list[Effect]:
    """Returns the effects of every level against its factor's first, then pairs of them.

    A main effect is averaged over the levels of the other factors. An interaction is how much
    more (or less) two levels add together than each alone: (both - one) - (other - neither).

    Args:
        arms: finished runs by arm.
        levels: arm -> factor -> level, the first arm holding the reference levels.

    Raises:
        ConfigError: the design is not fully crossed, or an arm has no run of the shared seeds.
    """
    _check(arms, levels=levels)
    held = [{r.seed for r in arms[arm]} for arm in levels]
    seeds = sorted(held[0].intersection(*held[1:]))
    if not seeds:
        raise ConfigError("the arms have no seed in common: run the same seeds in all of them.")
    runs = {arm: [r for s in seeds for r in arms[arm] if r.seed == s] for arm in levels}
    prompts = shared_prompts([r for found in runs.values() for r in found])
    cells = {
        frozenset(levels[arm].items()): np.asarray(scores_of(found, prompts=prompts), np.float64)
        for arm, found in runs.items()
    }
    found = [_effect(cells, _factors(levels), changed=c) for c in _changes(_factors(levels))]
    adjusted = holm([e.p_value for e in found])
    return [replace(e, p_adjusted=p) for e, p in zip(found, adjusted, strict=True)]


def _factors(levels: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Factor -> levels, the reference first."""
    names = next(iter(levels.values()))
    return {f: list(dict.fromkeys(chosen[f] for chosen in levels.values())) for f in names}


def _changes(factors: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    for order in (1, 2):
        for chosen in combinations(factors, order):
            for picked in product(*(factors[f][1:] for f in chosen)):
                yield dict(zip(chosen, picked, strict=True))


def _effect(
    cells: Mapping[frozenset[tuple[str, str]], Table],
    factors: Mapping[str, Sequence[str]],
    *,
    changed: Mapping[str, str],
) -> Effect:
    others = {f: levels for f, levels in factors.items() if f not in changed}
    contrasts: list[Table] = []
    for fixed in product(*others.values()):
        rest = dict(zip(others, fixed, strict=True))
        terms: list[Table] = []
        for on in product((True, False), repeat=len(changed)):
            pairs = zip(changed, on, strict=True)
            here = {f: changed[f] if is_on else factors[f][0] for f, is_on in pairs}
            sign = (-1) ** on.count(False)
            terms.append(sign * cells[frozenset({**rest, **here}.items())])
        contrasts.append(np.sum(terms, axis=0))
    mean_SP = np.mean(contrasts, axis=0)
    compared = compare(mean_SP, baseline=np.zeros_like(mean_SP))
    return Effect(
        name=" x ".join(f"{factor}={level}" for factor, level in changed.items()),
        order=len(changed),
        seeds=compared.pairs,
        difference=compared.difference,
        p_value=compared.p_value,
        p_adjusted=1.0,
    )


def _check(
    arms: Mapping[str, Sequence[RunRecord]], *, levels: Mapping[str, Mapping[str, str]]
) -> None:
    if not levels or len(levels) != prod(len(v) for v in _factors(levels).values()):
        raise ConfigError("effects need crossed factors: give the study `factors`, design full.")
    missing = [arm for arm in levels if not arms.get(arm)]
    if missing:
        raise ConfigError(f"no finished run of {', '.join(missing)}: run the study first.")
