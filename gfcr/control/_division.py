"""Divides a number of rollouts among prompts."""

import numpy as np
from numpy.typing import NDArray


def divide(values_PN: NDArray[np.float64], *, low: int, total: int) -> list[int]:
    """Returns numbers n_i, `total` in all, that maximise the sum of the prompts' values.

    Each further rollout goes where it adds most; of equals, to the prompt with the fewest. That is
    the optimum where the values of a prompt are concave in n: the multiple-choice knapsack then
    needs no table over budgets, and it is the bisection on the multiplier of the budget, rounded.

    Args:
        values_PN: values of each prompt with `low`, `low` + 1, ... rollouts; concave in a row.
        low: the number of rollouts that every prompt has at least.
        total: rollouts in all, at least `low` a prompt and at most what the columns allow.
    """
    num, width = values_PN.shape
    assert low * num <= total <= (low + width - 1) * num, f"{total} for {num} prompts"
    gains = np.diff(values_PN, axis=1).T.ravel()  # every prompt's first gain, then the second ones
    best = np.argsort(-gains, kind="stable")[: total - low * num]
    return [low + int(n) for n in np.bincount(best % num, minlength=num)]
