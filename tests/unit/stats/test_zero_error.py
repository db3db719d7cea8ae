"""An error of 0 is not known to be 0: no verdict, interval or plan is made of it."""

from math import inf

import numpy as np
import pytest

from gfcr.stats import UNBOUNDED, compare, judge, mean_interval
from gfcr.stats.power import Components, components, detectable
from tests.cases import over

ZERO_ONE = np.array([[1, 0, 1, 1, 0, 1, 0, 1], [1, 1, 0, 1, 0, 0, 1, 1]], float)


def test_seeds_of_equal_means_are_no_proof():
    """Both seeds say +1 of 8, on other prompts: 2 discordant answers of 16."""
    baseline, arm = np.zeros((2, 8)), np.zeros((2, 8))
    arm[0, 0] = arm[1, 5] = 1.0
    found = compare(arm, baseline=baseline)
    assert found.p_value > 0.05
    assert found.difference.low < 0 < found.difference.high
    assert judge(found, p_value=found.p_value, margin=0.2) == "inconclusive"


def test_equal_rows_of_answers_that_are_nearly_0_and_1_are_no_proof_either():
    """No lattice to be recognised: rewards of 0 and 1 with a little something."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(300):
        arm, baseline = (rng.integers(0, 2, (2, 16)) + rng.normal(0, 1e-5, (2, 16)) for _ in "ab")
        wrong += compare(arm, baseline=baseline).p_value < 0.05 / 11
    assert wrong == 0


@over("seeds", [2, 3, 5, 8])
def test_equal_differences_without_prompts_are_the_sign_flip_test_s(seeds):
    base = np.linspace(3, 4, seeds)
    found = compare(base + 0.25, baseline=base)
    assert found.p_value == 2.0 ** (1 - seeds)
    known = found.p_value <= 0.05
    limits = (0.25, 0.25) if known else (-inf, inf)
    assert (found.difference.low, found.difference.high) == pytest.approx(limits)
    assert np.isnan(found.detectable)


def test_rounding_is_no_difference():
    """0.1 + 0.2 against 0.3: each pair differs by 5e-17, nearly without spread."""
    found = compare([0.1 + 0.2] * 6, baseline=[0.3] * 6)
    assert found.difference.value == 0.0 and found.p_value == 1.0


def test_identical_arms_are_equivalent_only_where_enough_prompts_say_so():
    few, many = ZERO_ONE, np.tile(ZERO_ONE, (2, 32))
    told = [judge(compare(s, baseline=s), p_value=1.0, margin=0.02) for s in (few, many)]
    assert told == ["inconclusive", "equivalent"]


def test_the_interval_of_identical_arms_is_not_empty():
    found = compare(ZERO_ONE, baseline=ZERO_ONE).difference
    assert found.low == -found.high < -0.05


def test_unbounded_scores_without_error_have_no_limits():
    assert mean_interval([2.5, 2.5], bounds=UNBOUNDED).low == -inf
    assert mean_interval([2.5] * 6, bounds=UNBOUNDED).low == 2.5


def test_pilot_runs_without_a_difference_do_not_promise_to_find_everything():
    found = components(np.zeros((2, 16)), span=1.0)
    assert detectable(found, seeds=3, prompts=16) > 0.1
    assert components(np.zeros((2, 16))) == Components(seed=0.0, prompt=0.0, residual=0.0)


def test_fewer_prompts_than_seeds_are_the_scarcer_sample():
    """The effect differs between 3 prompts by 1; ten seeds repeat it."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(400):
        difference = rng.normal(0, 1, 3) + rng.normal(0, 0.1, (10, 3))
        wrong += compare(difference, baseline=np.zeros((10, 3))).p_value < 0.05
    assert wrong <= 34
