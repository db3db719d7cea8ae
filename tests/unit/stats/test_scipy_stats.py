"""What is taken from scipy is what its name says."""

import pytest

from benchmarks.ranking import kendall
from gfcr.stats.scipy_stats import t_quantile


def test_a_quantile_of_t_has_the_share_of_its_level_below_it():
    assert t_quantile(0.9, df=3) == pytest.approx(1.637744, abs=1e-6)


def test_the_agreement_of_rankings_is_kendall_s():
    # Of 6 pairs 5 agree and 1 does not.
    assert kendall([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert kendall([1, 2, 3], [3, 2, 1]) == -1.0
    assert kendall([1, 1, 1], [1, 2, 3]) == 0.0
