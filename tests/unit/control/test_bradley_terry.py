"""Strengths from games against the likelihood they are to maximise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr.control._bradley_terry import expected_share, strengths

games = st.integers(2, 6).flatmap(
    lambda n: st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=n * n, max_size=n * n)
)


def matrix(cells: list[float]) -> np.ndarray:
    wins = np.array(cells).reshape(round(len(cells) ** 0.5), -1)
    np.fill_diagonal(wins, 0)
    return wins


def likelihood(theta: np.ndarray, wins: np.ndarray, prior: float) -> float:
    gaps = theta[:, None] - theta[None, :]
    return float(-(wins * np.log1p(np.exp(-gaps))).sum() - prior / 2 * (theta**2).sum())


@settings(max_examples=100, deadline=None)
@given(games, st.sampled_from([0.01, 0.1, 1.0]))
def test_no_other_strengths_make_the_games_likelier(cells: list[float], prior: float) -> None:
    wins = matrix(cells)
    theta = strengths(wins, prior=prior)
    best = likelihood(theta, wins, prior)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        others = theta + size * rng.normal(size=(20, len(theta)))
        assert all(likelihood(other, wins, prior) <= best + 1e-9 for other in others)


@settings(max_examples=100, deadline=None)
@given(games)
def test_where_all_have_met_as_often_the_expected_share_is_the_win_rate(cells: list[float]) -> None:
    wins = matrix(cells) / 2 * 0.98 + 0.01  # nobody has won or lost all
    np.fill_diagonal(wins, 0)
    for one in range(len(wins)):
        for two in range(one):
            wins[one, two] = 1 - wins[two, one]
    rates = wins.sum(axis=1) / (len(wins) - 1)
    shares = expected_share(strengths(wins, prior=1e-9))
    assert shares == pytest.approx(rates, abs=1e-5)


def test_players_in_another_order_have_the_same_strengths() -> None:
    wins = matrix([0, 1, 2, 0, 0, 1, 0.5, 0, 0])
    order = [2, 0, 1]
    assert strengths(wins[np.ix_(order, order)], prior=0.1) == pytest.approx(
        strengths(wins, prior=0.1)[order]
    )


def test_who_lost_to_the_best_is_above_who_lost_to_the_worst() -> None:
    """0 beats 1, 1 beats 2; 3 lost to 0 and 4 to 2, once each."""
    wins = np.zeros((5, 5))
    for winner, loser in ((0, 1), (1, 2), (0, 3), (2, 4)):
        wins[winner, loser] = 1
    shares = expected_share(strengths(wins, prior=0.1))
    assert shares[0] == max(shares) and shares[3] > shares[4] == min(shares)


def test_one_alone_is_even() -> None:
    assert expected_share(strengths(np.zeros((1, 1)), prior=0.1)).tolist() == [0.5]
