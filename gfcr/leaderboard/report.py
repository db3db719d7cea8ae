"""The leaderboard as one HTML file that needs no network: table, curves, tokens, trade-offs."""

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from gfcr.leaderboard import Leaderboard, to_dict, to_rich
from gfcr.tracking.folder import write_atomic

_MAX_POINTS = 400


def write(board: Leaderboard, *, path: Path | str) -> Path:
    """Writes the report; the same leaderboard gives the same bytes.

    Args:
        board: what `gfcr.leaderboard.build` returned.
        path: the HTML file.
    """
    assets = files("gfcr.leaderboard") / "report_assets"
    page = (assets / "page.html").read_text("utf-8")
    for name in ("style.css", "charts.js", "page.js"):
        page = page.replace(f"{{{{{name}}}}}", (assets / name).read_text("utf-8"))
    page = page.replace("{{title}}", html.escape(board.study or "no runs"))
    # Last, so that nothing in the data is taken for a placeholder.
    page = page.replace("{{data}}", _data(board))
    write_atomic(Path(path), page)
    return Path(path)


def _data(board: Leaderboard) -> str:
    table = to_rich(board)
    shown = table.data()
    data: dict[str, Any] = {**to_dict(board), "caption": table.caption, "heads": shown["heads"]}
    for row, cells in zip(data["rows"], shown["rows"], strict=True):
        row["cells"] = cells
        row["curves"] = {seed: _thin(curve) for seed, curve in row["curves"].items()}
        for name, seeds in row["series"].items():
            row["series"][name] = {seed: _thin(curve) for seed, curve in seeds.items()}
    # A script element ends at the first "</script", whatever the JSON around it.
    return json.dumps(data, sort_keys=True, allow_nan=False).replace("<", "\\u003c")


def _thin(curve: list[Any]) -> list[Any]:
    """Keeps at most some 400 points, the last among them."""
    step = -(-len(curve) // _MAX_POINTS) or 1
    return curve[:-1][::step] + curve[-1:]
