"""The leaderboard as a terminal table, JSON, Markdown and CSV."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from gfcr.leaderboard.rows import Leaderboard, Row

if TYPE_CHECKING:
    from rich.table import Table

_STYLE = {"better": "green", "worse": "red", "equivalent": "blue", "inconclusive": "dim"}


def to_dict(board: Leaderboard) -> dict[str, Any]:
    """Returns everything as JSON values; what is not known (NaN) is null."""
    return _plain(asdict(board))


def to_json(board: Leaderboard) -> str:
    """Returns `to_dict` as text, the same bytes for the same runs."""
    return json.dumps(to_dict(board), indent=1, sort_keys=True, allow_nan=False) + "\n"


def to_markdown(board: Leaderboard) -> str:
    """Returns a table for a README, then what was left out."""
    heads = list(_COLUMNS)
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in board.rows:
        lines.append("| " + " | ".join(_escape(cell(row)) for cell in _COLUMNS.values()) + " |")
    lines += ["", caption(board)]
    lines += [f"- {row.arm}: {note}." for row in board.rows for note in row.notes]
    lines += [
        f"- Left out: {e.arm}, seed {e.seed} ({e.run_id}): {e.reason}." for e in board.excluded
    ]
    return "\n".join(lines) + "\n"


def to_csv(board: Leaderboard) -> str:
    """Returns one line per arm with plain numbers; what is not known is empty."""
    lines = [_flat(row) for row in board.rows]
    bins = sorted({key for line in lines for key in line if key.startswith("tokens:")})
    fixed = [key for key in lines[0] if not key.startswith("tokens:")] if lines else []
    text = io.StringIO()
    writer = csv.DictWriter(text, [*fixed, *bins], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def to_rich(board: Leaderboard, *, width: int = 120) -> "Table":
    """Returns a table for a terminal of `width` columns; a narrow one leaves costs out."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=board.study or "no runs",
        caption=caption(board),
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    columns = {h: c for h, c in _COLUMNS.items() if width >= _WIDE or h not in _WIDE_ONLY}
    for head in columns:
        left = head in ("arm", "verdict")
        table.add_column(head, justify="left" if left else "right", no_wrap=True)
    for row in board.rows:
        style = _STYLE.get(row.versus.verdict, "") if row.versus else "bold"
        cells = (escape(cell(row).replace(" [", "\n[")) for cell in columns.values())
        table.add_row(*cells, style=style)
    return table


def caption(board: Leaderboard) -> str:
    """Returns the sentence that says what the numbers are."""
    against = (
        f"Differences are paired by seed with {board.baseline}, 95 % intervals, Holm-corrected; "
        f"equivalent means within ±{board.margin:g}."
        if board.baseline
        else "No baseline is named, so nothing is compared."
    )
    out = len(board.excluded)
    left_out = f" Left out: {out} run{'s' if out > 1 else ''}." if out else ""
    return f"Held-out score, mean over seeds with its 95 % interval. {against}{left_out}"


def _score(row: Row) -> str:
    return _span(row.score.value, row.score.low, row.score.high)


def _difference(row: Row) -> str:
    if row.versus is None:
        return ""
    d = row.versus.comparison.difference
    return _span(d.value, d.low, d.high, sign="+")


def _verdict(row: Row) -> str:
    return row.versus.verdict if row.versus else ""


_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "arm": lambda row: row.arm,
    "seeds": lambda row: str(len(row.seeds)),
    "score": _score,
    "difference": _difference,
    "verdict": _verdict,
    "tokens": lambda row: _number(row.cost.generated_tokens),
    "trained": lambda row: _number(row.cost.trained_tokens),
    "wasted": lambda row: _percent(row.cost.wasted_share),
    "seconds": lambda row: _number(row.cost.wall_s),
    "passes": lambda row: _number(row.cost.forward_passes),
    "R_gen": lambda row: _percent(row.cost.r_gen),
}


_WIDE = 112
_WIDE_ONLY = ("seeds", "trained", "passes", "R_gen")


def _flat(row: Row) -> dict[str, str]:
    versus, iqm = row.versus, row.iqm
    comparison = versus.comparison if versus else None
    values: dict[str, object] = {
        "arm": row.arm,
        "strategy": row.strategy,
        **row.stages,
        "seeds": " ".join(map(str, row.seeds)),
        "before": row.before,
        "score": row.score.value,
        "score_low": row.score.low,
        "score_high": row.score.high,
        "iqm": iqm and iqm.value,
        "iqm_low": iqm and iqm.low,
        "iqm_high": iqm and iqm.high,
        "difference": comparison and comparison.difference.value,
        "difference_low": comparison and comparison.difference.low,
        "difference_high": comparison and comparison.difference.high,
        "p_adjusted": versus and versus.p_adjusted,
        "detectable": comparison and comparison.detectable,
        "improves": comparison and comparison.improves,
        "verdict": versus and versus.verdict,
        **{k: v for k, v in asdict(row.cost).items() if k != "ledger"},
        **{k: row.provenance.get(k) for k in ("task", "model", "spec_hash", "commit")},
        "notes": "; ".join(row.notes),
        **{f"tokens:{name}": tokens for name, tokens in row.cost.ledger.items()},
    }
    return {key: "" if _plain(v) is None else str(v) for key, v in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and not isfinite(value) else value


def _span(value: float, low: float, high: float, *, sign: str = "") -> str:
    limits = f" [{low:{sign}.3f}, {high:{sign}.3f}]" if isfinite(low) else ""
    return f"{value:{sign}.3f}{limits}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if isfinite(value) else ""


def _percent(value: float) -> str:
    return f"{value:.0%}" if isfinite(value) else ""


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|")
