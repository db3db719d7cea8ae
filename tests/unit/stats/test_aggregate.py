"""Aggregates by their words, and the law of the bootstrap; `test_rliable.py` has the numbers."""

import numpy as np
import pytest

from gfcr.stats import (
    bootstrap_interval,
    iqm,
    optimality_gap,
    performance_profile,
    stratified_interval,
)
from tests.cases import over


def mean(scores):
    return float(scores.mean())


SCORES = np.random.default_rng(0).uniform(0, 1, (5, 3))


def test_without_a_word_there_are_2000_draws_from_seed_0():
    stated = {"replicates": 2000, "seed": 0}
    found = stratified_interval(SCORES, statistic=mean)
    assert found == stratified_interval(SCORES, statistic=mean, **stated)
    # Many scores: the limits of their share move with every draw.
    many, taus = np.random.default_rng(0).uniform(0, 1, (30, 40)), np.linspace(0.1, 0.9, 9)
    profile = performance_profile(many, thresholds=taus)
    assert profile == performance_profile(many, thresholds=taus, **stated)


def test_the_gap_is_to_the_target_and_scores_above_it_are_on_it():
    assert optimality_gap([0.5, 0.9, 1.7]) == pytest.approx((0.5 + 0.1) / 3)
    assert optimality_gap([0.5, 0.9, 1.7], target=2.0) == pytest.approx((1.5 + 1.1 + 0.3) / 3)


def test_a_profile_counts_what_is_above_not_at_a_threshold():
    found = performance_profile([0.2, 0.5, 0.5, 0.9], thresholds=[0.1, 0.5, 0.9])
    assert found.share == (1.0, 0.25, 0.0)


@over("shape", [(6, 1), (4, 9), (9, 3)])
def test_seeds_and_prompts_are_drawn_with_replacement_and_independently(shape):
    scores = np.random.default_rng(shape).normal(2, 1, shape) + np.arange(shape[1])
    rng, seeds = np.random.default_rng(5), shape[0]
    rows, columns = (rng.integers(n, size=(4000, n)) for n in shape)
    means = scores[rows[:, :, None], columns[:, None, :]].mean(2)
    cut = seeds // 4
    drawn = np.sort(means, 1)[:, cut : seeds - cut].mean(1)
    found = bootstrap_interval(scores)
    assert found is not None and found.value == pytest.approx(iqm(scores.mean(1)))
    # A 2.5 % quantile of 2,000 draws: its standard error is about 0.06 deviations.
    near = pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.2 * np.std(drawn))
    assert (found.low, found.high) == near


def test_two_seeds_are_enough_and_one_is_not():
    assert bootstrap_interval([0.2, 0.6]) is not None
    assert bootstrap_interval([[0.2, 0.6]]) is None
