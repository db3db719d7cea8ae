"""Chooses some of a group's rollouts by their rewards."""

import numpy as np

from gfcr.types import Floats


def max_variance(values_N: Floats, *, num: int) -> list[int]:
    """Returns the indices, ascending, of the `num` values with the largest variance.

    The best subset is the i lowest and the `num - i` highest values for some i (2504.13818,
    theorem 1), so `num + 1` candidates are enough. All indices when there are no more than `num`.
    """
    if len(values_N) <= num:
        return list(range(len(values_N)))
    order = np.argsort(values_N, kind="stable")
    values = values_N.astype(np.float64)
    candidates = [[*order[:low], *order[len(order) - num + low :]] for low in range(num + 1)]
    best = max(candidates, key=lambda chosen: float(values[chosen].var()))
    return sorted(int(i) for i in best)
