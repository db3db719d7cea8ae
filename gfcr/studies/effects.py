"""Main effects and interactions of a crossed design.

Each is a contrast of the arms' held-out scores, taken seed by seed and prompt by prompt, so that it
has the paired test and interval of any comparison. Shape suffix: `_SP` seeds by prompts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from gfcr.errors import ConfigError
from gfcr.stats import Interval, compare, holm
from gfcr.stats.interval import Table
from gfcr.studies.crossed import Crossed


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The amount that a level, or two levels together, add to the held-out score."""

    name: str
    """The effect's name: `size=large`, or `size=large x gate=alive` for an interaction."""
    order: int
    """The number of factors: 1 for a main effect, 2 for an interaction."""
    seeds: int
    prompts: int
    """The number of prompts whose answers could be scored in all arms and seeds."""
    difference: Interval
    """The effect with its 95 % interval; the limits are NaN with one seed."""
    p_value: float
    p_adjusted: float
    """The p-value, Holm-corrected for the number of effects."""


def effects(design: Crossed) -> list[Effect]:
    """Returns the effects of every level against its factor's first, then pairs of them.

    A main effect is averaged over the levels of the other factors. An interaction is how much
    more (or less) two levels add together than each alone: (both - one) - (other - neither).
    A fractional or screening design gives main effects only, mixed with interactions as
    `gfcr.sweep.designs` says.

    Raises:
        ConfigError: effects cannot be told apart, as in a design with one factor at a time.
    """
    if not design.orthogonal:
        raise ConfigError(
            "in this design the factors' levels do not meet equally often, so that effects cannot "
            "be told apart: give the study design full, fractional or screening."
        )
    orders = (1, 2) if design.full else (1,)
    changes = _changes(design.factors, orders=orders)
    return corrected([_effect(design, changed=changed) for changed in changes])


def effect_of(added: Table, *, less: Table, name: str, order: int, span: float) -> Effect:
    """Returns a contrast's estimate with its paired test, not yet corrected.

    Args:
        added: the sum `_SP` of the scores that count for it.
        less: the sum `_SP` of those that count against it.
        name: the effect's name.
        order: 1 for a main effect; each further factor doubles the range of the contrast.
        span: largest size of a difference between two arms.
    """
    compared = compare(added, baseline=less, span=span * 2 ** (order - 1))
    return Effect(
        name=name,
        order=order,
        seeds=compared.pairs,
        prompts=added.shape[1],
        difference=compared.difference,
        p_value=compared.p_value,
        p_adjusted=1.0,
    )


def corrected(found: Sequence[Effect]) -> list[Effect]:
    """Returns the effects with p-values corrected for their number (Holm)."""
    adjusted = holm([e.p_value for e in found])
    return [replace(e, p_adjusted=p) for e, p in zip(found, adjusted, strict=True)]


def _changes(
    factors: Mapping[str, Sequence[str]], *, orders: Sequence[int]
) -> Iterator[dict[str, str]]:
    for order in orders:
        for chosen in combinations(factors, order):
            for picked in product(*(factors[f][1:] for f in chosen)):
                yield dict(zip(chosen, picked, strict=True))


def _effect(design: Crossed, *, changed: Mapping[str, str]) -> Effect:
    sums: dict[bool, Table] = {}
    for on in product((True, False), repeat=len(changed)):
        pairs = zip(changed, on, strict=True)
        here = {f: changed[f] if is_on else design.factors[f][0] for f, is_on in pairs}
        odd = on.count(False) % 2 == 1
        sums[odd] = sums.get(odd, 0.0) + design.where(here)
    name = " x ".join(f"{factor}={level}" for factor, level in changed.items())
    return effect_of(sums[False], less=sums[True], name=name, order=len(changed), span=design.span)
