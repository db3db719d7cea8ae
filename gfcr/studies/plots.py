"""The figure of a study: learning curves against three budgets, and tokens by ledger bin."""

from typing import TYPE_CHECKING, Any

import numpy as np

from gfcr.code import optional
from gfcr.errors import ConfigError, unknown_name
from gfcr.leaderboard import Leaderboard
from gfcr.shown.palette import BASELINE, Look, arm_looks, bin_looks
from gfcr.tracking.names import HELDOUT

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame  # pyright: ignore[reportMissingTypeStubs]

_AXES = {"update": "updates", "tokens": "tokens generated", "seconds": "seconds"}


def draw(curves: "DataFrame", *, board: Leaderboard, baseline: str, metric: str) -> "Figure":
    """Draws one metric against updates, tokens and seconds, and the ledger's bins by arm.

    A line is the mean over seeds, its band the range over them, as far as all seeds have come.
    Colours are those of the HTML report; the baseline is neutral, thick and on top.

    Args:
        curves: what `curves_frame` returned.
        board: the leaderboard with the tokens of each arm by bin.
        baseline: the arm that is drawn as the baseline.
        metric: the name of a metric in `curves`.

    Raises:
        ConfigError: no value of the metric is recorded.
    """
    pyplot = optional.load("matplotlib.pyplot")
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7), layout="constrained")
    for axis, by in zip(axes.flat, _AXES, strict=False):
        draw_curves(curves, metric=metric, baseline=baseline, by=by, ax=axis)
    axes[0, 0].legend(handles=axes[0, 0].lines)  # those given are shown whatever they are called
    _ledger(axes[1, 1], board)
    # A notebook shows what the cell returns; an open figure would be shown twice.
    pyplot.close(figure)
    return figure


def draw_curves(
    curves: "DataFrame", *, metric: str, baseline: str | None, by: str, ax: Any = None
) -> Any:
    """Draws one metric against one budget, one line per arm; returns the axes.

    Args:
        curves: what `curves_frame` returned.
        metric: the name of a metric in `curves`.
        baseline: the arm that is drawn as the baseline, if any.
        by: `update`, `tokens` or `seconds`.
        ax: matplotlib axes; None makes a figure.

    Raises:
        ConfigError: no value of the metric is recorded, or the budget is unknown.
    """
    pyplot = optional.load("matplotlib.pyplot")
    table: Any = curves
    points: Any = table[table["metric"] == metric]
    if by not in _AXES:
        raise unknown_name(by, kind="budget", allowed=_AXES, where="by")
    if not len(points):
        raise ConfigError(f"metric '{metric}' has no point yet: run it first.")
    if ax is None:
        ax = pyplot.subplots(layout="constrained")[1]
        pyplot.close(ax.figure)  # as `draw`
    _curves(ax, points, column=by, baseline=baseline)
    ax.set(xlabel=_AXES[by], ylabel="held-out score" if metric == HELDOUT else metric)
    return ax


def over_seeds(points: "DataFrame", *, by: str) -> "DataFrame":
    """Returns mean, lowest and highest value over seeds, where every seed has a curve.

    Beyond that stretch the mean would be of fewer seeds than before, and jump. Curves are
    interpolated linearly between their points.

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


def _curves(axis: Any, points: Any, *, column: str, baseline: str | None) -> None:
    looks = arm_looks(points["arm"].unique(), baseline=baseline)
    for arm, rows in points.groupby("arm", sort=False):
        band: Any = over_seeds(rows, by=column)
        x = band[column]
        # Only updates are shared by seeds: elsewhere every seed would add marks of its own.
        mark = "o" if column == "update" or len(band) == 1 else ""
        style = _line(looks[arm])
        axis.plot(x, band["mean"], marker=mark, markersize=3, label=arm, **style)
        axis.fill_between(
            x, band["low"], band["high"], color=style["color"], alpha=0.15, linewidth=0
        )
    axis.grid(alpha=0.3)


def _line(look: Look) -> dict[str, Any]:
    based = look == BASELINE
    dash = (0, look.dash) if look.dash else "solid"
    return {
        "color": look.light,
        "linestyle": dash,
        "linewidth": 3 if based else 1.5,
        "zorder": 2 + based,
    }


def _ledger(axis: Any, board: Leaderboard) -> None:
    arms = [row.arm for row in board.rows]
    looks = bin_looks(name for row in board.rows for name in row.cost.ledger)
    left = [0.0] * len(arms)
    for name, look in looks.items():
        widths = [row.cost.ledger.get(name, 0.0) for row in board.rows]
        axis.barh(arms, widths, left=left, label=name, color=look.light)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axis.invert_yaxis()
    axis.set(xlabel="tokens a run, by bin of the ledger")
    if looks:
        axis.legend(fontsize="small")
