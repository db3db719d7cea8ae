"""Two-level designs, which estimate the effects of many factors from few runs.

Rows are runs, columns factors, entries -1 (reference) and +1; the first row is all -1. Columns are
orthogonal, so that every main effect is estimated from all runs. Shape suffix: `_RF` runs by
factors.
"""

import importlib
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Signs = NDArray[np.int8]

# First rows of the cyclic designs (Plackett and Burman 1946, Biometrika 33, table).
_CYCLES = {
    12: "++-+++---+-",
    20: "++--++++-+-+----++-",
    24: "+++++-+-++--++--+-+----",
}


def screening(factors: int) -> Signs:
    """Returns the smallest Plackett-Burman design `_RF` for 1 to 31 factors.

    Main effects are clear of each other and mixed with interactions of two factors: for finding the
    few factors that matter.
    """
    runs = next(n for n in (2, 4, 8, 12, 16, 20, 24, 32) if n > factors)
    if runs in _CYCLES:
        row = np.array([1 if sign == "+" else -1 for sign in _CYCLES[runs]], np.int8)
        cycle = [np.roll(row, shift) for shift in range(runs - 1)]
        design_RF = np.array([-np.ones(runs - 1, np.int8), *cycle])
    else:
        linalg: Any = importlib.import_module("scipy.linalg")
        design_RF = -np.asarray(linalg.hadamard(runs), np.int8)[:, 1:]
    return design_RF[:, :factors]


def fractional(factors: int) -> Signs:
    """Returns the smallest regular fraction `_RF` of resolution IV or more.

    Main effects are clear of each other and of interactions of two factors. Up to three factors it
    is the full design. Further factors are products of three of the basic ones; a single further
    one is the product of all of them (Box and Hunter 1961), which makes the resolution `factors`.
    """
    basic = next(b for b in range(1, factors + 1) if b == factors or 2 ** (b - 1) >= factors > b)
    base_RF = np.array(
        [[1 if run >> f & 1 else -1 for f in range(basic)] for run in range(2**basic)], np.int8
    )
    if factors == basic:
        return base_RF
    odd = [c for size in range(3, basic + 1, 2) for c in combinations(range(basic), size)]
    words = [tuple(range(basic))] if factors == basic + 1 else odd[: factors - basic]
    # The sign that makes a further factor -1 where all basic ones are.
    extra = [(-1) ** (len(w) + 1) * np.prod(base_RF[:, w], axis=1) for w in words]
    return np.column_stack([base_RF, *extra]).astype(np.int8)
