"""Division of a budget against brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr.control._division import divide
from gfcr.control._outcomes import outcomes
from gfcr.testing import factories as make
from tests.cases import over

CONCAVE = st.lists(st.floats(0, 1), min_size=5, max_size=5).map(lambda g: sorted(g, reverse=True))


@settings(max_examples=100, deadline=None)
@given(st.lists(CONCAVE, min_size=1, max_size=3), st.integers(0, 15), st.integers(1, 4))
def test_no_other_division_is_worth_more(gains: list[list[float]], extra: int, low: int) -> None:
    values = np.array([np.cumsum([0.0, *g]) for g in gains])
    total = low * len(gains) + min(extra, 5 * len(gains))
    shares = divide(values, low=low, total=total)
    rows = range(len(gains))
    worth = [
        sum(values[i][n[i]] for i in rows)
        for n in product(range(6), repeat=len(gains))
        if sum(n) + low * len(gains) == total
    ]
    assert sum(shares) == total
    assert sum(values[i][shares[i] - low] for i in rows) == pytest.approx(max(worth))


@over(("total", "shares"), [(6, [2, 2, 2]), (7, [3, 2, 2]), (9, [3, 3, 3])])
def test_equal_prompts_get_equal_shares(total: int, shares: list[int]) -> None:
    values = np.tile(np.sqrt(np.arange(2, 9)), (3, 1))
    assert divide(values, low=2, total=total) == shares


def test_answers_that_could_not_be_scored_or_were_replayed_are_no_outcomes() -> None:
    group = make.group_of(
        [
            make.rollout(0, reward=1.0),
            make.rollout(1, reward=0.5),
            make.rollout(2, reward=0.4),
            make.rollout(3, reward=None),
            make.rollout(4, reward=1.0, origin="replay"),
        ]
    )
    assert outcomes(group, threshold=0.5) == (2, 3)
