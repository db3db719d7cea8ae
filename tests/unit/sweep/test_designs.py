"""Two-level designs have the properties their names promise."""

from itertools import combinations

import numpy as np

from gfcr.sweep.designs import fractional, screening
from tests.cases import over


@over("factors", range(1, 32))
def test_screening_is_orthogonal_and_barely_larger_than_its_factors(factors: int) -> None:
    design = screening(factors).astype(int)
    runs = len(design)
    assert (design[0] == -1).all() and factors < runs <= max(4, factors + 8)
    assert (design.T @ design == runs * np.eye(factors)).all() and (design.sum(0) == 0).all()
    assert len({tuple(row) for row in design}) == runs


@over("factors", range(1, 17))
def test_fractional_keeps_main_effects_clear_of_interactions(factors: int) -> None:
    design = fractional(factors).astype(int)
    runs = len(design)
    assert (design[0] == -1).all() and len({tuple(row) for row in design}) == runs
    assert (design.T @ design == runs * np.eye(factors)).all() and (design.sum(0) == 0).all()
    for one, other in combinations(range(factors), 2):
        assert not (design.T @ (design[:, one] * design[:, other])).any()


def test_fractional_is_as_small_as_the_books_say() -> None:
    sizes = {n: len(fractional(n)) for n in (2, 3, 4, 5, 6, 7, 8, 9, 16)}
    assert sizes == {2: 4, 3: 8, 4: 8, 5: 16, 6: 16, 7: 16, 8: 16, 9: 32, 16: 32}


def test_one_further_factor_has_the_best_resolution() -> None:
    """2^(5-1) of resolution V: interactions of two are clear of each other too."""
    design = fractional(5).astype(int)
    pairs = np.array([design[:, a] * design[:, b] for a, b in combinations(range(5), 2)])
    assert (pairs @ pairs.T == 16 * np.eye(10)).all()
