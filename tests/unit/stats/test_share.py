"""Intervals of a share lie in [0, 1] and hold the true share."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, norm, t

from gfcr.stats import UNBOUNDED, bounds_of, compare, mean_interval
from gfcr.stats.interval import mean_error, spread
from gfcr.stats.share import share_limits
from tests.cases import over


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
    found = mean_interval(scores)
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
    # Three times -0.1 has a mean below it.
    rounded = np.full((2, 3), np.nextafter(-0.1, -1.0))
    assert bounds_of(rounded, declared=(-0.1, 1.0)) == (-0.1, 1.0)
    assert mean_interval(rounded, bounds=(-0.1, 1.0)).low == -0.1
    # A declaration that the scores contradict bounds nothing.
    assert mean_interval(scores, bounds=(0.0, 1.0)) == free


@pytest.mark.slow
@over("rate", [0.03, 0.5, 0.9])
@over(("seeds", "prompts"), [(2, 16), (3, 32), (10, 64)])
def test_the_true_share_is_inside_nineteen_times_in_twenty(rate, seeds, prompts):
    rng, held, studies = np.random.default_rng(3), 0, 300
    for _ in range(studies):
        found = mean_interval(rng.binomial(1, rate, (seeds, prompts)).astype(float))
        held += found.low <= rate <= found.high
    assert held >= binom.ppf(0.005, studies, 0.95)


def limits(scores, level):
    """Korn and Graubard's, written out for one table."""
    (seeds, prompts), share = scores.shape, scores.mean()
    product, variance = share * (1 - share), float(spread(scores).variance)
    edge = product <= 1e-12
    if prompts > 1:
        sure = min(product / (variance + 1 / (12 * prompts**2)), seeds * prompts)
        answers = prompts if edge else sure
    else:
        answers = seeds if edge or variance <= 1e-24 else product / variance
    tail, df = (1 - level) / 2, (min(scores.shape) if prompts > 1 else seeds) - 1
    answers *= (norm.ppf(1 - tail) / t.ppf(1 - tail, df)) ** 2
    right, wrong = (0 if edge and s < 0.5 else s for s in (share, 1 - share))
    low = beta.ppf(tail, right * answers, wrong * answers + 1) if right else 0.0
    high = beta.ppf(1 - tail, right * answers + 1, wrong * answers) if wrong else 1.0
    return min(low, share), max(high, share)


TABLES = {
    "one column": [[0.2], [0.5], [0.9]],
    "one column, equal": [[0.5], [0.5], [0.5], [0.5]],
    "one column, equal but for rounding": [[0.5], [0.5 + 1e-13]],
    "one column, nearly equal": [[0.5], [0.5 + 1e-6]],
    "two columns": [[0, 1], [1, 1], [1, 0]],
    "more seeds than columns": [[0, 1, 1], [1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 1]],
    "as many answers as there are": [[0.6, 0.4, 0.5], [0.5, 0.5, 0.5]],
    "all wrong": [[0, 0, 0], [0, 0, 0]],
    "all right": [[1, 1, 1], [1, 1, 1]],
    "all right, one column": [[1], [1], [1]],
    "nearly all wrong": [[1e-13, 0, 0], [0, 0, 0]],
    "nearly all right": [[1, 1 - 1e-13], [1, 1]],
}


@over("level", [0.95, 0.8])
@over("case", TABLES)
def test_limits_are_korn_and_graubard_s(case, level):
    scores = np.array(TABLES[case], float)
    found = share_limits(spread(scores), level=level)
    assert tuple(map(float, found)) == pytest.approx(limits(scores, level), rel=1e-6, abs=1e-15)
    if level == 0.95:
        own = mean_interval(scores)
        assert (own.low, own.high) == found and own.value == pytest.approx(scores.mean())
        wide = mean_interval(4 * scores - 1, bounds=(-1.0, 3.0))
        told = (wide.value, wide.low, wide.high)
        assert told == pytest.approx([4 * x - 1 for x in (own.value, own.low, own.high)])


def test_scores_are_bounded_as_declared_or_as_a_share_where_all_are_one():
    inside, beyond = np.array([[0.0, 1.0]]), np.array([[0.5, 1.5]])
    assert bounds_of(inside) == bounds_of(inside, inside) == (0.0, 1.0)
    assert bounds_of(inside, beyond) == bounds_of(beyond, inside) == UNBOUNDED
    assert bounds_of(inside, -inside) == UNBOUNDED
    assert bounds_of(beyond, declared=(0.5, 1.5)) == (0.5, 1.5)
    assert bounds_of(beyond, declared=(0.6, 1.5)) == UNBOUNDED
    half = mean_error(beyond.repeat(2, 0)).interval()
    cut = mean_interval(beyond.repeat(2, 0), bounds=(0.0, inf))
    assert (cut.value, cut.low, cut.high) == (half.value, 0.0, half.high) and half.low < 0


def test_two_seeds_have_an_interval_and_one_has_none():
    assert mean_interval([[0.5, 0.1], [0.4, 0.6]]) is not None
    assert mean_interval([[0.5, 0.1]]) is None
