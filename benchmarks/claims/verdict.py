"""Verdicts on claims, from the measured effect alone.

An effect is above 0 in the claimed direction: a difference of scores, or the logarithm of how many
times less was spent.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Final, Literal, TypeAlias

Verdict: TypeAlias = Literal[
    "seen",
    "saved but worse",
    "smaller",
    "not seen",
    "contradicted",
    "inconclusive",
    "not testable here",
]
FDR: Final = 0.05
"""The false discovery rate of all effects that a table calls real."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A measured effect, with what is needed to judge it."""

    value: float
    low: float
    """The lower limit of two one-sided tests at 5 % each; NaN or infinite where unknown."""
    high: float
    q_value: float
    """The p-value of no effect, adjusted for all the claims (Benjamini and Hochberg 1995)."""
    at_least: bool = False
    """Whether the effect is a lower bound: some run of the baseline never reached the target."""
    at_most: bool = False
    """Whether the effect is an upper bound: some run of the strategy never reached the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is known of the score beside something else that a strategy is better at."""

    loss: float
    """How much lower the strategy's score ends than the baseline's."""
    at_most: bool = False
    """Whether the loss is an upper bound: answers without a score count against the strategy."""
    margin: float
    """The largest loss that would not matter."""
    q_value: float
    """The one-sided p-value of a loss of the margin, adjusted as `Effect.q_value` is."""


def judge(effect: Effect, *, minimum: float, claim: Literal["better", "equal"]) -> Verdict:
    """Returns the verdict on a claim.

    Of a claim that the strategy is better by a difference that matters:

    - seen: the effect is real (q < 0.05), and its estimate is the minimum or more.
    - smaller: it is real, and its estimate is less than the minimum.
    - not seen: whatever effect there is lies within +-minimum (two one-sided tests at 5 %).
    - contradicted: a real effect the other way that is not within +-minimum.
    - inconclusive: these runs cannot tell.

    Of a claim that nothing is lost: seen where the effect lies within +-minimum, contradicted where
    it is real and its estimate the minimum or more either way, otherwise inconclusive.

    A bound (`at_least`, `at_most`) proves no more than what holds of all effects on its side.
    """
    if not isfinite(effect.value) or not isfinite(effect.q_value):
        return "inconclusive"
    real = effect.q_value < FDR
    known = not (effect.at_least or effect.at_most)
    inside = known and -minimum < effect.low and effect.high < minimum
    if claim == "equal":
        if inside:
            return "seen"
        return "contradicted" if real and _beyond(effect, minimum) else "inconclusive"
    if real and effect.value > 0 and not effect.at_most:
        if effect.value >= minimum:
            return "seen"
        return "inconclusive" if effect.at_least else "smaller"
    if inside:
        return "not seen"
    if real and effect.value < 0 and not effect.at_least:
        return "contradicted"
    return "inconclusive"


def joined(verdict: Verdict, *, kept: Kept | None) -> Verdict:
    """Returns the verdict on a claim of two parts: better at something, and the score kept.

    - saved but worse: better, and the score lost is the margin or more (q < 0.05).
    - inconclusive: better, and whether the score is kept these runs cannot tell.
    """
    if verdict not in ("seen", "smaller"):
        return verdict
    if kept is None or not kept.q_value < FDR:
        return "inconclusive"
    if kept.loss < kept.margin:
        return verdict
    return "inconclusive" if kept.at_most else "saved but worse"


def told(verdict: Verdict, *, gain: float, margin: float) -> Verdict:
    """Takes back that a score was kept where the baseline did not learn more than the margin.

    Whoever learns nothing loses nothing there: trials of non-inferiority call it assay sensitivity
    (ICH E10).

    Args:
        verdict: the verdict so far, which needs a score that is kept.
        gain: the lower 95 % limit of what the baseline itself learned.
        margin: the largest loss that would not matter.
    """
    return "inconclusive" if verdict in ("seen", "smaller") and not gain > margin else verdict


def _beyond(effect: Effect, minimum: float) -> bool:
    """Tells whether the estimate is certainly at least the minimum, either way."""
    if effect.at_least or effect.at_most:
        up = effect.value >= minimum and not effect.at_most
        return up or (effect.value <= -minimum and not effect.at_least)
    return abs(effect.value) >= minimum
