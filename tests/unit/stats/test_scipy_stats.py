"""What is taken from scipy is what its name says."""

from math import exp

import pytest

from benchmarks.ranking import kendall
from gfcr.stats.scipy_stats import f_tail, root, t_quantile, t_tail


def test_a_square_of_t_is_f_with_one_degree_of_freedom():
    assert f_tail(t_quantile(0.95, df=7) ** 2, df=1, df_error=7) == pytest.approx(0.1)
    assert f_tail(2.5, df=3, df_error=8) == pytest.approx(1 - 0.8666, abs=1e-3)
    assert float(t_tail(t_quantile(0.9, df=3), df=3)) == pytest.approx(0.1)


def test_the_agreement_of_rankings_is_kendall_s():
    # Of 6 pairs 5 agree and 1 does not.
    assert kendall([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert kendall([1, 2, 3], [3, 2, 1]) == -1.0
    assert kendall([1, 1, 1], [1, 2, 3]) == 0.0


def test_a_root_is_where_a_function_is_0():
    assert root(lambda x: exp(x) - 2, low=0.0, high=3.0) == pytest.approx(0.6931472)
