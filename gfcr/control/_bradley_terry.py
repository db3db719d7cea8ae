"""Strengths of players from the games they won (Bradley and Terry, 1952)."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Doubles: TypeAlias = NDArray[np.float64]


def strengths(wins_NN: Doubles, *, prior: float) -> Doubles:
    """Returns log-strengths theta of maximal likelihood: P(i beats j) = sigmoid(theta_i - theta_j).

    Args:
        wins_NN: games that i won against j; a tie counts as half a game won by each.
        prior: precision of a normal prior on each theta, around 0. It bounds the strength of a
            player who won all games or none, and relates players who never met.
    """
    games, won = wins_NN + wins_NN.T, wins_NN.sum(axis=1)
    theta: Doubles = np.zeros(len(wins_NN))
    for _ in range(100):  # Newton's method on a strictly concave function, damped
        expected = _beats(theta)
        slope: Doubles = won - (games * expected).sum(axis=1) - prior * theta
        curve = games * expected * (1 - expected)
        # The prior makes it invertible: the games alone do not change if all strengths rise alike.
        bend: Doubles = np.diag(curve.sum(axis=1) + prior) - curve
        step: Doubles = np.linalg.solve(bend, slope).astype(np.float64)
        largest = float(np.abs(step).max(initial=0.0))
        # Far from the optimum a whole step overshoots: no strength moves by more than 2 at once.
        theta = theta + step * min(1.0, 2.0 / max(largest, 2.0))
        if largest < 1e-12:
            break
    return theta


def expected_share(theta_N: Doubles) -> Doubles:
    """Returns the expected share of games that each player wins, one against each other player."""
    if len(theta_N) < 2:
        return np.full(len(theta_N), 0.5)
    return (_beats(theta_N).sum(axis=1) - 0.5) / (len(theta_N) - 1)  # less the one against itself


def _beats(theta: Doubles) -> Doubles:
    gaps_NN: Doubles = theta[None, :] - theta[:, None]
    return 1 / (1 + np.exp(gaps_NN))
