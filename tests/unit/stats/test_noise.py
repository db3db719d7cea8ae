"""Halves of one arm's seeds."""

import numpy as np
import pytest

from gfcr.stats import noise_floor
from tests.cases import over


@over(("seeds", "splits"), [(4, 3), (5, 15), (9, 315), (10, 200), (11, 200)])
def test_up_to_nine_seeds_every_split_is_tried_and_200_seeded_ones_of_more(
    seeds: int, splits: int
) -> None:
    scores = np.random.default_rng(seeds).uniform(0, 1, (seeds, 6))
    found = noise_floor(scores)
    assert found is not None
    assert (found.seeds, found.splits) == (seeds // 2, splits)
    assert found == noise_floor(scores), "the draws are seeded"


def test_halves_hold_a_seed_once_and_none_in_common() -> None:
    """One seed in eleven is right: it is in one half or in none, never in both."""
    scores = np.zeros((11, 3))
    scores[4] = 1.0
    found = noise_floor(scores)
    assert found is not None and found.typical == found.high == pytest.approx(1 / 5)
