"""Main effects of a design that runs only some of the arms: fractional or screening."""

from collections.abc import Mapping

import numpy as np

from gfcr.stats.interval import Table
from gfcr.studies.crossed import Crossed
from gfcr.studies.effects import Effect, corrected, effect_of


def is_partial(levels: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether arms are some of a two-level design, chosen so that its factors can be told apart.

    Args:
        levels: arm -> factor -> level.
    """
    if not levels:
        return False
    factors = list(next(iter(levels.values())))
    held = {f: list(dict.fromkeys(chosen[f] for chosen in levels.values())) for f in factors}
    if any(len(found) != 2 for found in held.values()) or len(levels) >= 2 ** len(factors):
        return False
    signs_RF = np.array(
        [[1 if chosen[f] == held[f][1] else -1 for f in factors] for chosen in levels.values()]
    )
    orthogonal = signs_RF.T @ signs_RF == len(levels) * np.eye(len(factors))
    return bool(orthogonal.all()) and not signs_RF.sum(0).any()


def main_effects(design: Crossed) -> list[Effect]:
    """Returns what each factor's second level adds: half of the arms against the other half.

    In a screening design an effect also carries shares of interactions between other factors; in a
    fractional one, of interactions between three or more.
    """
    found: list[Effect] = []
    for factor, (reference, level) in design.factors.items():
        held: dict[str, list[Table]] = {level: [], reference: []}
        for chosen, arm in design.arms.items():
            held[dict(chosen)[factor]].append(design.scores[arm])
        mean_SP = np.mean(held[level], axis=0) - np.mean(held[reference], axis=0)
        found.append(effect_of(mean_SP, name=f"{factor}={level}", order=1, span=design.span))
    return corrected(found)
