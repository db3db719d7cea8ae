"""Our numbers are rliable's and statsmodels', to 1e-6 (`rliable_reference.py` made theirs)."""

import json
from pathlib import Path

import pytest

from gfcr.stats import holm, iqm, performance_profile, probability_of_improvement
from gfcr.stats.interval import table
from gfcr.stats.paired import paired_mean
from tests.cases import over

REFERENCE = json.loads((Path(__file__).parent / "rliable_reference.json").read_text())
CASES = REFERENCE["cases"]
DRAWS = {"replicates": REFERENCE["replicates"], "seed": REFERENCE["seed"]}


@over("case", CASES.values(), ids=CASES)
def test_points_chances_of_improvement_and_profiles_are_rliable_s(case):
    ours, want = case["ours"], case["profile"]
    assert iqm(ours) == pytest.approx(case["iqm"], abs=1e-6)
    improves = probability_of_improvement(ours, over=case["theirs"])
    assert improves == pytest.approx(case["improvement"], abs=1e-6)
    found = performance_profile(ours, thresholds=want["thresholds"], **DRAWS)
    for name in ("thresholds", "share", "low", "high"):
        assert getattr(found, name) == pytest.approx(want[name], abs=1e-6)


def test_holm_is_that_of_statsmodels():
    want = REFERENCE["holm"]
    assert holm(want["p"]) == pytest.approx(want["adjusted"], abs=1e-9)


def test_equivalence_is_that_of_statsmodels():
    want = REFERENCE["equivalence"]
    arm, baseline = (table(want[name]) for name in ("arm", "baseline"))
    for margin, p_value in want["p"].items():
        for level in (0.05, p_value * 0.999, p_value * 1.001):
            if level < 0.5:  # of higher ones there are no intervals
                inner = paired_mean(arm, baseline_SP=baseline, span=None).inner(level=level)
                inside = -float(margin) < inner.low and inner.high < float(margin)
                assert inside == (p_value < level)
