"""Aggregates by their words, and the law of the bootstrap; `test_rliable.py` has the numbers."""

import numpy as np
import pytest

from gfcr.stats import bootstrap_interval, iqm, performance_profile
from tests.cases import over


def test_without_a_word_there_are_2000_draws_from_seed_0():
    # Many scores: the limits of their share move with every draw.
    many, taus = np.random.default_rng(0).uniform(0, 1, (30, 40)), np.linspace(0.1, 0.9, 9)
    profile = performance_profile(many, thresholds=taus)
    assert profile == performance_profile(many, thresholds=taus, replicates=2000, seed=0)


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
