"""The error of a mean and what is made of it, against their definitions written out."""

from math import hypot, inf, log
from statistics import mean as plain_mean
from statistics import variance

import numpy as np
import pytest
from scipy.stats import t

from gfcr.stats.interval import (
    FLOOR,
    Interval,
    Mean,
    degrees,
    half_width,
    inner_half,
    mean_error,
    one_answer,
    spread,
    table,
    two_sided,
)
from tests.cases import over

SHAPES = [(2, 1), (5, 1), (2, 7), (4, 3), (3, 3)]
FLAT = np.array([[1.0, 0.0], [0.0, 1.0]])
"""Rows of one mean, and columns: all of its variance is residual."""


def scores(shape, *, by_prompt=1.0):
    rng = np.random.default_rng(shape)
    return rng.normal(0.3, 0.2, shape) + by_prompt * rng.normal(size=shape[1]) - 0.5


def parts(scores_SP):
    """Mean, variance of it by seeds, by prompts and of the cells, in plain Python."""
    seeds, prompts = scores_SP.shape
    rows, columns = [plain_mean(r) for r in scores_SP], [plain_mean(c) for c in scores_SP.T]
    mean, by_seed = plain_mean(rows), variance(rows) / seeds
    if prompts == 1:
        return mean, by_seed, 0.0, 0.0
    cells = np.ndenumerate(scores_SP)
    squares = sum((x - rows[s] - columns[p] + mean) ** 2 for (s, p), x in cells)
    cell = squares / ((seeds - 1) * (prompts - 1)) / (seeds * prompts)
    return mean, by_seed, variance(columns) / prompts, cell


@over("shape", SHAPES)
def test_the_analysis_of_variance_is_the_textbook_s_for_one_table_and_for_many(shape):
    tables = [scores(shape), scores(shape, by_prompt=0.0), scores(shape) * 3]
    together = spread(np.stack(tables))
    for number, scores_SP in enumerate(tables):
        found = spread(scores_SP)
        want = pytest.approx(parts(scores_SP), rel=1e-9, abs=1e-15)
        assert (found.mean, found.by_seed, found.by_prompt, found.cell) == want
        many = (together.mean, together.by_seed, together.by_prompt, together.cell)
        assert tuple(float(x[number]) for x in many) == want
        assert (found.seeds, found.prompts) == shape
        assert found.df == (min(shape) if shape[1] > 1 else shape[0]) - 1


@over("by_prompt", [0.0, 1.0])
@over("shape", SHAPES)
def test_interval_and_p_value_are_those_of_t_with_the_crossed_error(shape, by_prompt):
    scores_SP = scores(shape, by_prompt=by_prompt)
    mean, by_seed, of_prompt, cell = parts(scores_SP)
    error = max(by_seed, by_seed + of_prompt - cell, FLOOR * cell) ** 0.5
    df = degrees(seeds=shape[0], prompts=shape[1])
    found = mean_error(scores_SP)
    assert (found.value, found.error, found.df) == pytest.approx((mean, error, df))
    assert (found.span, found.prompts) == (inf, shape[1])
    for told, quantile in (
        (found.interval(), t.ppf(0.975, df)),
        (found.interval(level=0.8), t.ppf(0.9, df)),
        (found.inner(level=0.05), t.ppf(0.95, df)),
    ):
        limits = (mean - quantile * error, mean + quantile * error)
        assert (told.value, told.low, told.high) == pytest.approx((mean, *limits))
    assert found.p_value() == pytest.approx(2 * t.sf(abs(mean) / error, df))
    assert mean_error(-scores_SP).p_value() == found.p_value()


def test_where_seeds_and_prompts_agree_the_error_is_a_share_of_the_cells():
    assert mean_error(FLAT).error == pytest.approx((FLOOR * parts(FLAT)[3]) ** 0.5)


def test_between_shares_the_inner_interval_is_wider_by_the_rule_of_three_and_cut_at_the_span():
    found = Mean(value=0.1, error=0.02, df=9, span=1.0, prompts=50)
    half = hypot(t.ppf(0.95, 9) * 0.02, log(2 / 0.05) / 50)
    told = found.inner(level=0.05)
    assert (told.low, told.high) == pytest.approx((0.1 - half, 0.1 + half))
    assert half == pytest.approx(float(inner_half(0.02, df=9, level=0.05, unseen=1 / 50)))
    wide = Mean(value=0.1, error=9.0, df=9, span=1.0, prompts=50)
    for told in (wide.interval(), wide.inner(level=0.05)):
        assert (told.value, told.low, told.high) == (0.1, -1.0, 1.0)


def test_an_interval_within_limits_keeps_what_lies_between_them():
    given = Interval(value=0.5, low=-2.0, high=3.0)
    assert given.within(low=-1.0, high=1.0) == Interval(value=0.5, low=-1.0, high=1.0)
    assert given.within(low=-9.0, high=9.0) == given


def test_equal_cells_have_the_error_of_one_more_answer_each_way_where_the_span_is_known():
    assert one_answer(seeds=3, prompts=4, span=2.0) == pytest.approx(2 * 2**0.5 / 14)
    assert one_answer(seeds=3, prompts=2, span=1.0) == pytest.approx(2**0.5 / 8)
    assert one_answer(seeds=3, prompts=4, span=inf) == one_answer(seeds=3, prompts=1, span=1) == 0
    for value in (0.0, 0.5, -0.5):
        found = mean_error(np.full((3, 4), value), span=1.0)
        assert found.error == pytest.approx(2**0.5 / 14) and found.value == value


def test_what_is_rounding_is_told_by_the_size_of_the_scores_or_by_that_given():
    scores_SP = -0.5 + 1e-14 * np.arange(12.0).reshape(3, 4)
    assert mean_error(scores_SP, span=1.0).error == pytest.approx(2**0.5 / 14)
    assert 0 < mean_error(scores_SP, span=1.0, scale=1e-3).error < 1e-12
    coarse = -0.5 + 1e-8 * np.arange(12.0).reshape(3, 4)
    assert 0 < mean_error(coarse, span=1.0).error < 1e-6
    assert mean_error(coarse, span=1.0, scale=1e6).error == pytest.approx(2**0.5 / 14)


def test_an_error_of_0_has_limits_and_a_p_value_by_the_sign_flip_test():
    assert half_width([0.0, 2.0], df=4, alpha=0.0625).tolist() == [0, t.ppf(1 - 0.03125, 4) * 2]
    assert half_width(0.0, df=3, alpha=0.0625) == inf
    p_values = two_sided([0.0, 0.3, -0.3, 0.3], error=[0.0, 0.0, 0.0, 0.2], df=4)
    assert p_values == pytest.approx([1.0, 0.0625, 0.0625, 2 * t.sf(1.5, 4)])


def test_one_score_a_seed_is_a_table_of_one_column():
    assert table([1, 2]).tolist() == [[1.0], [2.0]] and table([1, 2]).dtype == np.float64
    assert table([[1, 2]]).tolist() == [[1.0, 2.0]]
    assert (degrees(seeds=5, prompts=1), degrees(seeds=5, prompts=2)) == (4, 1)
