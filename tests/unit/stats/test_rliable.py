"""Our numbers are rliable's and statsmodels', to 1e-6 (`rliable_reference.py` made theirs)."""

import json
from pathlib import Path

import numpy as np
import pytest

from gfcr.stats import (
    bootstrap_interval,
    compare,
    holm,
    iqm,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    stratified_interval,
)

REFERENCE = json.loads((Path(__file__).parent / "rliable_reference.json").read_text())
CASES = REFERENCE["cases"]
DRAWS = {"replicates": REFERENCE["replicates"], "seed": REFERENCE["seed"]}
STATISTICS = {
    "iqm": iqm,
    "mean": lambda scores: float(np.mean(scores)),
    "median": lambda scores: float(np.median(np.mean(scores, 0))),
    "optimality_gap": optimality_gap,
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.mark.slow
@pytest.mark.parametrize("name", STATISTICS)
def test_points_and_limits_are_rliable_s(case, name):
    found = stratified_interval(case["ours"], statistic=STATISTICS[name], **DRAWS)
    want = case["intervals"][name]
    assert STATISTICS[name](case["ours"]) == pytest.approx(case[name], abs=1e-6)
    for limit in ("value", "low", "high"):
        assert getattr(found, limit) == pytest.approx(want[limit], abs=1e-6)


def test_the_chance_of_improvement_and_its_limits_are_rliable_s(case):
    ours, theirs = case["ours"], case["theirs"]
    found = stratified_interval(ours, theirs, statistic=_improvement, **DRAWS)
    want = case["improvement"]
    assert probability_of_improvement(ours, over=theirs) == pytest.approx(want["value"], abs=1e-6)
    assert (found.low, found.high) == pytest.approx((want["low"], want["high"]), abs=1e-6)


def _improvement(ours, theirs):
    return probability_of_improvement(ours, over=theirs)


def test_performance_profiles_are_rliable_s(case):
    want = case["profile"]
    found = performance_profile(case["ours"], thresholds=want["thresholds"], **DRAWS)
    for name in ("thresholds", "share", "low", "high"):
        assert getattr(found, name) == pytest.approx(want[name], abs=1e-6)


def test_the_leaderboard_s_interval_is_that_of_one_task():
    """Same law, other draws: agreement to the Monte Carlo error of a quantile."""
    scores = np.random.default_rng(1).normal(0.6, 0.1, 15)
    found, theirs = bootstrap_interval(scores), stratified_interval(scores, statistic=iqm)
    assert found.value == pytest.approx(theirs.value, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_holm_is_that_of_statsmodels():
    want = REFERENCE["holm"]
    assert holm(want["p"]) == pytest.approx(want["adjusted"], abs=1e-9)


def test_equivalence_is_that_of_statsmodels():
    want = REFERENCE["equivalence"]
    for margin, p_value in want["p"].items():
        for level in (0.05, p_value * 0.999, p_value * 1.001):
            if level < 0.5:  # of higher ones there are no intervals
                inner = compare(want["arm"], baseline=want["baseline"], level=level).inner
                inside = -float(margin) < inner.low and inner.high < float(margin)
                assert inside == (p_value < level)
