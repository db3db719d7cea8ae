"""The Gaussian process over prompts, against the formula written out and in its limits."""

import numpy as np
import pytest

from gfcr.control._neighbours import PRIOR_VARIANCE, ngram_features, posterior_mean, rbf


def test_features_are_of_the_tokens_in_their_order() -> None:
    one, same = ngram_features([4, 5, 6, 7]), ngram_features((4, 5, 6, 7))
    turned, other = ngram_features([7, 6, 5, 4]), ngram_features([9, 10, 11, 12])
    assert np.linalg.norm(one) == pytest.approx(1) and (one == same).all()
    assert 1 > one @ turned > one @ other
    assert not ngram_features([]).any()


def test_the_kernel_of_a_prompt_with_itself_is_one() -> None:
    points = np.random.default_rng(0).normal(size=(5, 3))
    kernel = rbf(points, points, scale=0.7)
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    np.testing.assert_allclose(kernel, np.exp(-squares / (2 * 0.7**2)), atol=1e-12)


def test_two_points_by_hand() -> None:
    known, asked = np.array([[0.0], [1.0]]), np.array([[0.5]])
    rates, noise = np.array([0.2, 0.8]), np.array([0.01, 0.03])
    k, near = PRIOR_VARIANCE * np.exp(-0.5), PRIOR_VARIANCE * np.exp(-0.125)
    a, d = PRIOR_VARIANCE + 0.01, PRIOR_VARIANCE + 0.03
    weights = np.array([d * -0.3 - k * 0.3, k * 0.3 + a * 0.3]) / (a * d - k * k)
    expected = 0.5 + near * weights.sum()
    got = posterior_mean(known, rates, noise, asked, scale=1.0)
    assert got == pytest.approx([expected])


def test_it_knows_what_it_saw_and_is_the_mean_elsewhere() -> None:
    known, rates = np.array([[0.0], [10.0]]), np.array([0.1, 0.5])
    exact = posterior_mean(known, rates, np.full(2, 1e-9), known, scale=1.0)
    assert exact == pytest.approx(rates, abs=1e-6)
    far = posterior_mean(known, rates, np.full(2, 1e-9), np.array([[99.0]]), scale=1.0)
    assert far == pytest.approx([0.3])
    nothing = posterior_mean(np.zeros((0, 1)), np.zeros(0), np.zeros(0), known, scale=1.0)
    assert nothing.tolist() == [0.5, 0.5]
