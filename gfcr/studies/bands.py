"""The curves of several seeds as one line with a band."""

from typing import TYPE_CHECKING, Any

import numpy as np

from gfcr.code import optional

if TYPE_CHECKING:
    from pandas import DataFrame  # pyright: ignore[reportMissingTypeStubs]


def over_seeds(points: "DataFrame", *, by: str) -> "DataFrame":
    """Returns mean, lowest and highest value over seeds, where every seed's curve goes.

    Beyond that stretch the mean would be of fewer seeds than before, and jump. Between two points
    a curve is straight.

    Args:
        points: one arm's and metric's rows of `curves_frame`: `seed`, `value` and the column `by`.
        by: `update`, `tokens` or `seconds`.

    Returns:
        Columns `by`, `mean`, `low`, `high`; no rows where the curves have no stretch in common.
    """
    known: Any = points.dropna(subset=[by, "value"])
    curves = [rows.sort_values(by) for _, rows in known.groupby("seed")]
    first = max((rows[by].iloc[0] for rows in curves), default=0)
    last = min((rows[by].iloc[-1] for rows in curves), default=0)
    x_N: Any = np.unique(known[by][known[by].between(first, last)])
    pandas = optional.load("pandas")
    values = pandas.DataFrame([np.interp(x_N, rows[by], rows["value"]) for rows in curves])
    # Without a seed there is no point either.
    limits = {"mean": values.mean(), "low": values.min(), "high": values.max()}
    return pandas.DataFrame({by: x_N, **limits})
