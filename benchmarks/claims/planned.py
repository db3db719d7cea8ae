"""Plans the study of a claim: what it can show, before it runs."""

from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np

from benchmarks.claims.measures import HOW, least, margin_of
from benchmarks.claims.study import Asked
from benchmarks.claims.verdict import FDR
from gfcr import planning
from gfcr.stats.power import Components, components, detectable, seeds_needed

SPREAD: Final = {"cost": 0.2, "drop": 0.03}
"""Assumed standard deviation over seeds of the log of a paired ratio, and of a paired drop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """The power of a claim's study and the runs still to make. NaN and None are unknown."""

    minimum: float
    """The smallest effect that matters, in the measure's unit."""
    detectable: float
    """The smallest effect found with 80 % power with these seeds."""
    seeds: int | None
    """The fewest seeds that find the minimum with 80 % power."""
    kept_by: int | None
    """The fewest seeds that show with 80 % power that a score that is equal is kept; None too where
    the score is what is claimed."""
    source: str
    """The source of the variance: `paired runs`, `runs` or `assumed`."""
    left: int
    """The number of runs still to make."""
    tokens: float | None
    """The tokens that these runs will generate."""
    seconds_left: float | None
    """The seconds that these runs will take, one after the other."""


def power_of(asked: Asked, *, parts: int) -> Power:
    """Plans the study of a claim; runs nothing.

    Args:
        asked: the claim with its study.
        parts: how many p-values are judged together, two of a claim of something besides the
            score: the first step of the method of Benjamini and Hochberg tests at FDR / parts,
            which is the level here.
    """
    made = planning.plan(asked.study)
    told, source, prompts = made.variance.components, made.variance.source, made.prompts
    smallest = least(asked.claim.measure, minimum=asked.claim.minimum_effect)
    level, kept = FDR / parts, None
    if HOW[asked.claim.measure].of != "score":
        # One-sided: twice the level of the two-sided test.
        margin, one_sided = margin_of(asked.claim), 2 * level
        kept = seeds_needed(margin, components=told, prompts=prompts, alpha=one_sided)
        told, source, prompts = *_of_pairs(asked), 1
    return Power(
        minimum=smallest,
        detectable=detectable(told, seeds=made.seeds, prompts=prompts, alpha=level)
        if made.seeds > 1
        else nan,
        seeds=seeds_needed(smallest, components=told, prompts=prompts, alpha=level, most=1000),
        kept_by=kept,
        source=source,
        left=asked.left,
        tokens=made.tokens,
        seconds_left=made.seconds,
    )


def _of_pairs(asked: Asked) -> tuple[Components, str]:
    """Returns the variance of a measure of one number per seed: of paired runs, else assumed."""
    found, of = asked.measured(), HOW[asked.claim.measure].of
    if found is None:
        return Components(seed=SPREAD[of] ** 2, prompt=0.0, residual=0.0), "assumed"
    ours, theirs = (np.array(side) for side in (found.arm, found.baseline))
    differences = np.log(theirs / ours) if of == "cost" else theirs - ours
    return components(differences), "paired runs"
