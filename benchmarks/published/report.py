"""Shows published figures beside ours in the terminal."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from benchmarks.published.check import TOLERANCE, Kind, Row
from gfcr.shown.table import Column, Table

_CHECK: tuple[Column[Row], ...] = (
    Column(
        "figure, and what it was computed from",
        lambda row: Text.assemble(row.what, (f" <- {row.given}", "dim")),
        words=True,
        wraps=True,
    ),
    Column("paper", lambda row: row.paper, ".4g"),
    Column("ours", lambda row: row.ours, ".4g"),
    Column("error", lambda row: row.error, "+.1%"),
)


def check_text(rows: Sequence[Row]) -> list[Any]:
    """Returns published figures beside ours, by kind of comparison, and the verdict."""
    off = [row for row in rows if row.decides and not row.holds]
    deciding = sum(row.decides for row in rows)
    return [
        *(_check_table(kind, rows=rows) for kind in _TITLES),
        *_missed_lines(rows),
        f"{len(off)} of {deciding} deciding figures are off by more than {TOLERANCE:.0%}"
        + "".join(f"; {row.what}" for row in off),
    ]


_TITLES: dict[Kind, str] = {
    "arithmetic": "Arithmetic: published figures computed from each other by our formulas",
    "prediction": "Prediction: a measured figure computed from other measurements",
    "not modelled": "Not modelled: shown, does not decide; reasons below",
    "projection": "Projection: the paper's is simulated, and so is ours; does not decide",
}


def _check_table(kind: Kind, *, rows: Sequence[Row]) -> Table[Row]:
    return Table(
        rows=[row for row in rows if row.kind == kind],
        columns=_CHECK,
        title=_TITLES[kind],
        style=lambda row: "red" if row.decides and not row.holds else "",
    )


def _missed_lines(rows: Sequence[Row]) -> list[str]:
    """Returns why rows are not modelled, one line per reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.kind == "not modelled":
            reasons.setdefault(row.reason, []).append(row.what)
    return [f"not modelled: {'; '.join(what)}: {reason}." for reason, what in reasons.items()]
