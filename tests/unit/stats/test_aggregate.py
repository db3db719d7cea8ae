"""Aggregates by their words; their numbers against rliable's are in `test_rliable.py`."""

import numpy as np
import pytest

from gfcr.stats import optimality_gap, performance_profile, stratified_interval


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
