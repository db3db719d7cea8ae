"""Intervals of a share lie in [0, 1] and hold the true share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from gfcr.stats import compare, mean_interval
from gfcr.stats.share import share_interval


@given(
    st.integers(2, 6),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]),
    st.integers(0, 9999),
)
def test_limits_lie_in_0_1_around_the_mean(seeds, prompts, rate, seed):
    scores = np.random.default_rng(seed).binomial(1, rate, (seeds, prompts)).astype(float)
    found = mean_interval(scores)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.value == pytest.approx(scores.mean())
    assert found.high - found.low > 0
    mirrored = mean_interval(1 - scores)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low))


@given(st.integers(2, 6), st.integers(1, 12), st.integers(0, 9999))
def test_differences_of_shares_lie_in_minus_1_to_1(seeds, prompts, seed):
    arm, baseline = np.random.default_rng(seed).integers(0, 2, (2, seeds, prompts)).astype(float)
    found = compare(arm, baseline=baseline)
    for limits in (found.difference, found.inner):
        assert -1 <= limits.low <= limits.value <= limits.high <= 1


def test_limits_are_clopper_and_pearson_s_for_the_answers_that_the_variance_is_worth():
    scores = np.array([[1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 0, 1]], float)
    rows, columns, mean = scores.mean(1), scores.mean(0), scores.mean()
    residual = ((scores - rows[:, None] - columns + mean) ** 2).sum() / (2 * 3)
    variance = rows.var(ddof=1) / 3 + columns.var(ddof=1) / 4 - residual / 12 + 1 / (12 * 4**2)
    answers = mean * (1 - mean) / variance * (1.959963985 / 4.302652730) ** 2
    right, wrong = mean * answers, (1 - mean) * answers
    found = share_interval(scores)
    assert found.low == pytest.approx(beta.ppf(0.025, right, wrong + 1), rel=1e-6)
    assert found.high == pytest.approx(beta.ppf(0.975, right + 1, wrong), rel=1e-6)


def test_all_right_is_as_good_as_the_prompts_are_many():
    few, many = (mean_interval(np.ones((5, n))).low for n in (16, 256))
    assert few < many < 1.0
    assert mean_interval([1.0, 1.0, 1.0]).low < 0.5


def test_rewards_beyond_0_and_1_have_the_t_interval_and_declared_bounds_are_kept():
    scores = [[0.2, 1.6], [0.4, 1.8], [0.1, 1.4]]
    free = mean_interval(scores)
    assert free.high - free.value == pytest.approx(free.value - free.low)
    inside = mean_interval([[-1, 1], [-1, -1], [-1, 1]], bounds=(-1.0, 1.0))
    assert -1 <= inside.low < inside.value < inside.high <= 1
    # A declaration that the scores contradict bounds nothing.
    assert mean_interval(scores, bounds=(0.0, 1.0)) == free


@pytest.mark.parametrize("rate", [0.03, 0.5, 0.9])
@pytest.mark.parametrize(("seeds", "prompts"), [(2, 16), (3, 32), (10, 64)])
def test_the_true_share_is_inside_nineteen_times_in_twenty(rate, seeds, prompts):
    rng, held, studies = np.random.default_rng(3), 0, 300
    for _ in range(studies):
        found = mean_interval(rng.binomial(1, rate, (seeds, prompts)).astype(float))
        held += found.low <= rate <= found.high
    assert held >= binom.ppf(0.005, studies, 0.95)
