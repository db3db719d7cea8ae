"""The leaderboard as a terminal table, Markdown and CSV."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING

from gfcr.config import HELDOUT
from gfcr.leaderboard.chosen import price
from gfcr.leaderboard.json_rows import delta_of, plain
from gfcr.leaderboard.rows import Leaderboard, Row
from gfcr.leaderboard.seats import by_arm
from gfcr.leaderboard.text import csv_cell, markdown

if TYPE_CHECKING:
    from rich.table import Table

_STYLE = {"better": "green", "worse": "red", "equivalent": "blue", "inconclusive": "dim"}


def to_markdown(board: Leaderboard) -> str:
    """Returns a table for a README, then what was left out."""
    columns = {n: c for n, c in _COLUMNS.items() if n in _FIRST or any(c(r) for r in board.rows)}
    heads = list(columns)
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in board.rows:
        cells = (
            markdown(show(row)) if name in _WORDS else show(row) for name, show in columns.items()
        )
        lines.append("| " + " | ".join(cells) + " |")
    said = [f"{row.arm}: {note}." for row in board.rows for note in row.notes]
    said += [f"Left out: {e.arm}, seed {e.seed} ({e.run_id}): {e.reason}." for e in board.excluded]
    lines += ["", markdown(caption(board)), *(f"- {markdown(line)}" for line in said)]
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
        title=escape(board.study or "no runs"),
        caption=escape(caption(board)),
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    columns = _fitting(board, width=width)
    for name in columns:
        side = "left" if name in _LEFT else "right"
        table.add_column(_head(name), justify=side, no_wrap=True)
    for row in board.rows:
        style = _STYLE.get(row.versus.verdict, "") if row.versus else "bold"
        cells = (escape(cell(row).replace(" [", "\n[")) for cell in columns.values())
        table.add_row(*cells, style=style)
    return table


def remarks(board: Leaderboard) -> str:
    """Returns what stands under the table in a terminal: notes, and what was left out and why."""
    lines = [f"- {row.arm}: {note}." for row in board.rows for note in row.notes]
    out: dict[tuple[str, str], list[str]] = {}
    for run in board.excluded:
        out.setdefault((run.arm, run.reason), []).append(str(run.seed))
    lines += [
        f"- Left out: {arm}, seed {', '.join(seeds)}: {reason}."
        for (arm, reason), seeds in out.items()
    ]
    return "\n".join(lines)


def caption(board: Leaderboard) -> str:
    """Returns the sentences that say what the numbers are."""
    told = ["Held-out score, mean over seeds with its 95 % interval."]
    if board.metric != HELDOUT:
        told.append(f"The study's own metric, for stopping and search, is {board.metric}.")
    if board.baseline:
        told.append(
            f"Differences are paired by seed with {board.baseline}, 95 % intervals, "
            f"Holm-corrected; equivalent means within ±{board.margin:g}."
        )
        if board.looks > 1:
            told.append(
                f"Seeds were added after a look ({board.looks} looks): p x {price(board.looks)}, "
                "and equivalent is tested at a level as much smaller."
            )
    else:
        told.append("No baseline is named, so nothing is compared.")
    floor = board.noise_floor
    if floor is not None:
        told.append(
            f"Noise floor: two halves of {board.baseline}'s seeds ({floor.seeds} each) differ by "
            f"{floor.typical:.3f} in the middle, {floor.high:.3f} in one split of twenty."
        )
    if board.target is not None:
        told.append(f"Target: held-out score {board.target:.3f}; medians over runs.")
    if any(row.rank is None for row in board.rows):
        told.append("Without a rank: see the notes.")
    told += board.notes
    if board.missing:
        told.append(f"Missing: {by_arm(board.missing)}.")
    if board.excluded:
        out = len(board.excluded)
        told.append(f"Left out: {out} run{'s' if out > 1 else ''}.")
    return " ".join(told)


def _score(row: Row) -> str:
    return _span(row.score.value, row.score.low, row.score.high)


def _difference(row: Row) -> str:
    if row.versus is None:
        return ""
    d = row.versus.comparison.difference
    return _span(d.value, d.low, d.high, sign="+")


def _verdict(row: Row) -> str:
    return row.versus.verdict if row.versus else ""


def _rank(row: Row) -> str:
    return "" if row.rank is None else str(row.rank)


def _front(row: Row) -> str:
    on = (("tokens", row.pareto.tokens), ("seconds", row.pareto.seconds))
    return " ".join(name for name, there in on if there)


def _bias(row: Row) -> str:
    return " ".join(kind for kind, shift in row.bias.items() if shift.significant)


def _to_target(row: Row) -> tuple[str, str]:
    found = row.to_target
    if found is None:
        return "", ""
    share = f" ({found.reached}/{found.runs})" if found.reached < found.runs else ""
    return (_number(found.tokens) or "-") + share, _number(found.seconds) or "-"


_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "#": _rank,
    "arm": lambda row: row.arm,
    "seeds": lambda row: str(len(row.seeds)),
    "score": _score,
    "difference": _difference,
    "verdict": _verdict,
    "certificate": lambda row: "" if row.certificate == "none" else row.certificate,
    "tokens": lambda row: _number(row.cost.rollout_tokens),
    "trained": lambda row: _number(row.cost.trained_tokens),
    "wasted": lambda row: _percent(row.cost.wasted_share),
    "seconds": lambda row: _number(row.cost.wall_s),
    "tokens to target": lambda row: _to_target(row)[0],
    "seconds to target": lambda row: _to_target(row)[1],
    "front": _front,
    "bias": _bias,
    "unscorable": lambda row: str(row.unscorable or ""),
    "passes": lambda row: _number(row.cost.forward_passes),
    "verified": lambda row: _number(row.cost.verifier_calls),
    "R_gen": lambda row: _percent(row.cost.r_gen),
}
_WORDS = ("arm", "certificate")
"""Columns of words that come from a store."""
_LEFT = ("arm", "verdict", "certificate", "front", "bias")
_FIRST = ("#", "arm", "score", "difference", "verdict", "tokens", "wasted", "seconds")
"""Columns of a narrow terminal; a wider one takes the others as they fit, in this order."""
_THEN = (
    *("unscorable", "certificate", "tokens to target", "seconds to target", "front", "bias"),
    *("trained", "seeds", "passes", "R_gen", "verified"),
)


_GAP = 2


def _fitting(board: Leaderboard, *, width: int) -> dict[str, Callable[[Row], str]]:
    """The columns that fit, in the table's order; one that is empty in all rows is left out."""
    widths = {name: _width(board, name) for name in _COLUMNS}
    kept, left = [*_FIRST], width - sum(widths[name] + _GAP for name in _FIRST)
    for name in _THEN:
        if any(_COLUMNS[name](row) for row in board.rows) and widths[name] + _GAP <= left:
            kept.append(name)
            left -= widths[name] + _GAP
    return {name: cell for name, cell in _COLUMNS.items() if name in kept}


def _width(board: Leaderboard, name: str) -> int:
    cells = [_COLUMNS[name](row).replace(" [", "\n[") for row in board.rows]
    return max(len(line) for text in (_head(name), *cells) for line in text.split("\n"))


def _head(name: str) -> str:
    return name.replace(" to target", "\nto target")


def _flat(row: Row) -> dict[str, str]:
    delta, target = delta_of(row), row.to_target
    values: dict[str, object] = {
        "arm": row.arm,
        "strategy": row.strategy,
        **row.stages,
        "seeds": " ".join(map(str, row.seeds)),
        "rank": row.rank,
        "certificate": row.certificate,
        "before": row.before,
        **{name: getattr(row, name) for name in ("answers", "unscorable", "cut")},
        **{name if name.startswith("iqm") else _scored(name): v for name, v in _scores(row)},
        "difference": delta["value"],
        "difference_low": delta["low"],
        "difference_high": delta["high"],
        **{name: delta[name] for name in ("p_adjusted", "detectable", "improves")},
        "verdict": _verdict(row),
        **{k: v for k, v in asdict(row.cost).items() if k != "ledger"},
        "tokens_to_target": target and target.tokens,
        "seconds_to_target": target and target.seconds,
        "reached_target": target and f"{target.reached}/{target.runs}",
        "front": _front(row),
        "bias": _bias(row),
        **{k: row.provenance.get(k) for k in ("task", "model", "spec_hash", "commit")},
        "notes": "; ".join(row.notes),
        **{f"tokens:{name}": tokens for name, tokens in row.cost.ledger.items()},
    }
    return {csv_cell(key): "" if plain(v) is None else csv_cell(v) for key, v in values.items()}


def _scores(row: Row) -> list[tuple[str, float]]:
    return list(asdict(row.score).items())


def _scored(name: str) -> str:
    return "score" if name == "value" else f"score_{name}"


def _span(value: float, low: float, high: float, *, sign: str = "") -> str:
    limits = f" [{low:{sign}.3f}, {high:{sign}.3f}]" if isfinite(low) else ""
    return f"{value:{sign}.3f}{limits}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if isfinite(value) else ""


def _percent(value: float) -> str:
    return f"{value:.0%}" if isfinite(value) else ""
