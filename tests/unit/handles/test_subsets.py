"""The subset of the largest variance."""

from itertools import combinations

import numpy as np
import pytest

from gfcr.handles.subsets import max_variance
from tests.cases import over


@over("values", [[0, 0, 1, 1, 1], [0, 1, 1, 1, 1], [0, 0, 0.4, 1], [1, 1, 1, 1]])
@over("num", [1, 2, 3])
def test_it_has_as_many_as_asked_and_no_other_of_them_varies_more(values, num) -> None:
    rewards = np.array(values, np.float32)
    chosen = max_variance(rewards, num=num)
    assert len(chosen) == num and chosen == sorted({*chosen})
    most = max(rewards[list(c)].var() for c in combinations(range(len(values)), num))
    assert rewards[chosen].var() == pytest.approx(most, abs=1e-6)


def test_of_equal_ones_the_first_low_and_the_last_high_ones_are_taken() -> None:
    rewards = np.random.default_rng(0).integers(0, 2, 500).astype(np.float32)
    low, high = np.flatnonzero(rewards == 0), np.flatnonzero(rewards == 1)
    assert max_variance(rewards, num=40) == sorted([*low[:20], *high[-20:]])
