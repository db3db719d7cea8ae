"""The leaderboard as one HTML file that needs no network: differences, arms, curves, costs.

Charts are plain SVG drawn by the page's own script, smaller than a chart library that draws forest
plots and labels.
"""

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any, Final

from gfcr.leaderboard import Leaderboard, to_csv, to_dict, to_rich
from gfcr.leaderboard.shown_rollouts import NONE, ShownRun
from gfcr.shown.palette import BASELINE, Look, arm_looks, bin_looks, style_sheet
from gfcr.values.disk import write_atomic

_MAX_POINTS: Final = 400
_DIGITS: Final = 5
"""Significant digits of the values in charts: more cannot be seen, and take half of the file."""
_ASSETS: Final = (
    *("style.css", "charts.js", "state.js", "forest.js", "rollouts.js", "table.js", "detail.js"),
    "page.js",
)


def write(
    board: Leaderboard, *, path: Path | str, rollouts: Mapping[str, ShownRun] | None = None
) -> Path:
    """Writes the report; the same leaderboard gives the same bytes.

    Args:
        board: what `gfcr.leaderboard.build` returned.
        path: the HTML file.
        rollouts: some rollouts of each arm, see `shown_rollouts.of_store`.
    """
    assets = files("gfcr.leaderboard") / "report_assets"
    page = (assets / "page.html").read_text("utf-8")
    for name in _ASSETS:
        page = page.replace(f"{{{{{name}}}}}", (assets / name).read_text("utf-8"))
    page = page.replace("{{palette}}", style_sheet())
    page = page.replace("{{title}}", html.escape(board.study or "no runs"))
    # Last, so that nothing in the data is taken for a placeholder.
    page = page.replace("{{data}}", _data(board, rollouts=rollouts or {}))
    write_atomic(Path(path), page)
    return Path(path)


def _data(board: Leaderboard, *, rollouts: Mapping[str, ShownRun]) -> str:
    table = to_rich(board)
    shown = table.data()
    bins = {name for row in board.rows for name in row.cost.ledger}
    data: dict[str, Any] = {
        **to_dict(board),
        **{"caption": table.caption, "heads": shown["heads"], "csv": to_csv(board)},
        "unit": _unit(board),
        "looks": {
            arm: _look(look)
            for arm, look in arm_looks(
                (row.arm for row in board.rows), baseline=board.baseline
            ).items()
        },
        "bins": [{"name": name, **_look(look)} for name, look in bin_looks(bins).items()],
        "rollouts": {arm: run.data() for arm, run in rollouts.items()},
        "no_rollouts": NONE,
    }
    for row, cells in zip(data["rows"], shown["rows"], strict=True):
        row["cells"] = cells
        row["curves"] = {seed: _thin(curve) for seed, curve in row["curves"].items()}
        for name, seeds in row["series"].items():
            row["series"][name] = {seed: _thin(curve) for seed, curve in seeds.items()}
    # A script element ends at the first "</script", whatever the JSON around it.
    text = json.dumps(data, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _unit(board: Leaderboard) -> str:
    if board.bounds is None or not all(map(isfinite, board.bounds)):
        return "mean reward"
    low, high = board.bounds
    return "share, 0 to 1" if (low, high) == (0, 1) else f"mean reward, {low:g} to {high:g}"


def _look(look: Look) -> dict[str, Any]:
    dash = " ".join(map(str, look.dash)) or None
    return {"color": f"var(--{look.name})", "dash": dash, "base": look == BASELINE}


def _thin(curve: list[Any]) -> list[Any]:
    """Returns at most some 400 points of a curve, the last among them, in five digits."""
    step = -(-len(curve) // _MAX_POINTS) or 1
    kept = curve[:-1][::step] + curve[-1:]
    return [[v if v is None else float(f"{v:.{_DIGITS}g}") for v in point] for point in kept]
