"""Verdicts at their borders."""

from dataclasses import replace
from itertools import product
from math import inf, nan
from typing import Any

from benchmarks.claims.verdict import FDR, Effect, Kept, joined, judge, told
from tests.cases import over

REAL, UNREAL = FDR - 1e-9, FDR
MINIMUM = 0.1


def _judged(value: float, *, half: float = 0.01, q: float = REAL, **more: Any) -> str:
    claim = more.pop("claim", "better")
    effect = Effect(value=value, low=value - half, high=value + half, q_value=q, **more)
    return judge(effect, minimum=MINIMUM, claim=claim)


@over(
    ("value", "half", "q", "verdict"),
    [
        (0.1, 0.05, REAL, "seen"),  # the minimum itself is enough
        (0.0999, 0.05, REAL, "smaller"),
        (0.0999, 0.0001, REAL, "smaller"),  # real, and inside the minimum
        (0.1, 0.05, UNREAL, "inconclusive"),  # q = 0.05 is not below it
        (5.0, 9.0, UNREAL, "inconclusive"),
        (0.0, 0.0999, UNREAL, "not seen"),
        (0.0, 0.1, UNREAL, "inconclusive"),  # the interval touches the minimum
        (0.05, 0.0499, UNREAL, "not seen"),
        (-0.05, 0.0499, REAL, "not seen"),  # real, but too small to matter
        (-0.05, 0.05, REAL, "contradicted"),
        (-0.0001, 0.2, REAL, "contradicted"),
        (-0.05, 0.05, UNREAL, "inconclusive"),
        (0.0, 0.2, REAL, "inconclusive"),  # no direction
    ],
)
def test_a_claim_of_better(value: float, half: float, q: float, verdict: str) -> None:
    assert _judged(value, half=half, q=q) == verdict


@over(
    ("value", "half", "q", "verdict"),
    [
        (0.0, 0.0999, UNREAL, "seen"),
        (0.05, 0.0499, REAL, "seen"),
        (0.0, 0.1, UNREAL, "inconclusive"),
        (0.1, 0.05, REAL, "contradicted"),
        (-0.1, 0.05, REAL, "contradicted"),
        (-0.1, 0.05, UNREAL, "inconclusive"),
        (0.0999, 0.05, REAL, "inconclusive"),
    ],
)
def test_a_claim_of_equal(value: float, half: float, q: float, verdict: str) -> None:
    assert _judged(value, half=half, q=q, claim="equal") == verdict


@over(
    ("bound", "value", "verdict"),
    [
        ("at_least", 0.2, "seen"),
        ("at_least", 0.05, "inconclusive"),  # the true effect may be the minimum or more
        ("at_least", 0.0, "inconclusive"),
        ("at_least", -0.2, "inconclusive"),
        ("at_most", 0.2, "inconclusive"),
        ("at_most", 0.05, "inconclusive"),
        ("at_most", 0.0, "inconclusive"),
        ("at_most", -0.2, "contradicted"),
    ],
)
def test_a_bound_proves_what_holds_of_all_on_its_side(
    bound: str, value: float, verdict: str
) -> None:
    assert _judged(value, **{bound: True}) == verdict
    both = _judged(value, at_least=True, at_most=True)
    assert both == "inconclusive"


@over(
    ("bound", "value", "verdict"),
    [
        ("at_least", 0.2, "contradicted"),
        ("at_least", -0.2, "inconclusive"),
        ("at_most", -0.2, "contradicted"),
        ("at_most", 0.2, "inconclusive"),
        ("at_most", 0.0, "inconclusive"),
        ("at_least", 0.0, "inconclusive"),
    ],
)
def test_a_bound_on_what_is_claimed_equal(bound: str, value: float, verdict: str) -> None:
    assert _judged(value, claim="equal", **{bound: True}) == verdict


@over(("value", "q"), [(nan, REAL), (inf, REAL), (0.2, nan)])
def test_what_is_unknown_is_inconclusive(value: float, q: float) -> None:
    assert _judged(value, q=q) == "inconclusive"


def test_unknown_limits_prove_no_equality() -> None:
    effect = Effect(value=0.0, low=nan, high=nan, q_value=1.0)
    assert judge(effect, minimum=MINIMUM, claim="better") == "inconclusive"
    assert judge(effect, minimum=MINIMUM, claim="equal") == "inconclusive"


def test_every_verdict_is_said_of_some_effect() -> None:
    values = [-0.2, -0.05, 0.0, 0.05, 0.2]
    found = {_judged(v, half=h, q=q) for v, h, q in product(values, (0.01, 0.3), (REAL, UNREAL))}
    assert found == {"seen", "smaller", "not seen", "contradicted", "inconclusive"}


@over(
    ("first", "loss", "q", "verdict"),
    [
        ("seen", 0.0, REAL, "seen"),
        ("smaller", -0.2, REAL, "smaller"),
        ("seen", 0.0299, REAL, "seen"),
        ("seen", 0.03, REAL, "saved but worse"),
        ("smaller", 0.3, REAL, "saved but worse"),
        ("seen", 0.0, UNREAL, "inconclusive"),
        ("seen", 0.3, UNREAL, "inconclusive"),
        ("seen", 0.0, nan, "inconclusive"),
        ("not seen", 0.3, REAL, "not seen"),
        ("contradicted", 0.3, REAL, "contradicted"),
        ("inconclusive", 0.0, REAL, "inconclusive"),
    ],
)
def test_what_is_saved_must_not_be_paid_in_score(
    first: Any, loss: float, q: float, verdict: str
) -> None:
    assert joined(first, kept=Kept(loss=loss, margin=0.03, q_value=q)) == verdict


def test_answers_that_nobody_could_score_prove_no_loss() -> None:
    worst = Kept(loss=0.3, margin=0.03, q_value=REAL, at_most=True)
    assert joined("seen", kept=worst) == "inconclusive"
    assert joined("seen", kept=replace(worst, loss=0.0)) == "seen", "kept at the worst"


def test_a_saving_whose_scores_nobody_recorded_is_not_seen() -> None:
    assert joined("seen", kept=None) == "inconclusive"


@over(
    ("first", "gain", "verdict"),
    [
        ("seen", 0.031, "seen"),
        ("seen", 0.03, "inconclusive"),
        ("smaller", -inf, "inconclusive"),
        ("seen", nan, "inconclusive"),
        ("saved but worse", 0.0, "saved but worse"),
        ("not seen", 0.0, "not seen"),
    ],
)
def test_where_nobody_learns_no_score_is_kept(first: Any, gain: float, verdict: str) -> None:
    assert told(first, gain=gain, margin=0.03) == verdict
