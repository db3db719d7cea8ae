"""Scores to rewards: least squares where that rises, and never an order turned round."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr.control._judge_scores import fitted, mid_ranks

some = st.sampled_from([0.0, 0.2, 0.25, 0.5, 1.0]) | st.floats(0, 1, width=32)
pairs = st.lists(st.tuples(some, some), min_size=2, max_size=12)


@settings(max_examples=200, deadline=None)
@given(pairs)
def test_the_line_never_falls_and_no_rising_one_is_closer(
    found: list[tuple[float, float]],
) -> None:
    line = fitted(found)
    scores, rewards = np.array(found).T
    assert line.slope >= 0

    def loss(intercept: float, slope: float) -> float:
        return float(((rewards - intercept - slope * scores) ** 2).mean())

    best = loss(line.intercept, line.slope)
    for slope in (0.0, 0.5, 1.0, line.slope * 0.9, line.slope * 1.1):
        assert best <= loss(float((rewards - slope * scores).mean()), slope) + 1e-9


def test_a_line_is_found_again_and_a_falling_one_is_flat() -> None:
    rising = fitted([(s, 0.1 + 0.6 * s) for s in (0.0, 0.3, 1.0)])
    assert (rising.intercept, rising.slope) == pytest.approx((0.1, 0.6))
    falling = fitted([(s, 1 - s) for s in (0.0, 0.5, 1.0)])
    assert (falling.intercept, falling.slope) == pytest.approx((0.5, 0.0))


@settings(max_examples=200, deadline=None)
@given(st.lists(some, min_size=1, max_size=12))
def test_ranks_keep_the_order_and_lie_around_one_half(values: list[float]) -> None:
    ranks = mid_ranks(values)
    assert np.mean(ranks) == pytest.approx(0.5) and 0 <= min(ranks) <= max(ranks) <= 1
    for one, first in zip(values, ranks, strict=True):
        for two, second in zip(values, ranks, strict=True):
            assert (one < two) == (first < second)
