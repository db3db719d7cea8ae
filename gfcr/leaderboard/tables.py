"""The leaderboard as a table: for terminals, as Markdown and as CSV."""

from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any

from gfcr.leaderboard.expected import by_arm
from gfcr.leaderboard.figures import figures_of
from gfcr.leaderboard.rows import Board, Row, ToTarget
from gfcr.shown.table import Column, Table, csv_of
from gfcr.shown.text import markdown, number, span
from gfcr.tracking.names import HELDOUT

_STYLE = {"better": "green", "worse": "red", "equivalent": "blue", "inconclusive": "dim"}


def to_rich(board: Board) -> Table[Row]:
    """Returns the table, to be printed by rich; a narrow terminal leaves costs out."""
    return Table(
        rows=board.rows,
        columns=_COLUMNS,
        title=board.study or "no runs",
        caption=caption(board),
        style=lambda row: _STYLE.get(row.versus.verdict, "") if row.versus else "bold",
    )


def to_markdown(board: Board) -> str:
    """Returns a Markdown table for a README, with notes and the runs left out below it."""
    said = [f"{row.arm}: {note}." for row in board.rows for note in row.notes]
    said += [f"Left out: {e.arm}, seed {e.seed} ({e.run_id}): {e.reason}." for e in board.excluded]
    lines = [markdown(caption(board)), *(f"- {markdown(line)}" for line in said)]
    return to_rich(board).markdown() + "\n" + "".join(f"{line}\n" for line in lines)


def to_csv(board: Board) -> str:
    """Returns CSV with one line per arm and plain numbers; what is not known is empty."""
    return csv_of(columns_of(board))


def columns_of(board: Board) -> list[dict[str, Any]]:
    """Returns the columns of the CSV by name, for each arm."""
    bins = sorted({name for row in board.rows for name in row.cost.ledger})
    return [
        {
            "arm": row.arm,
            "strategy": row.strategy,
            **row.stages,
            **figures_of(row),
            "seeds": " ".join(map(str, row.seeds)),
            **{k: row.provenance.get(k) for k in ("task", "model", "spec_hash", "commit")},
            "notes": "; ".join(row.notes),
            **{f"tokens:{name}": row.cost.ledger.get(name) for name in bins},
        }
        for row in board.rows
    ]


def remarks(board: Board) -> str:
    """Returns the text below the table in a terminal: notes, and runs left out with reasons."""
    lines = [f"- {row.arm}: {note}." for row in board.rows for note in row.notes]
    out: dict[tuple[str, str], list[str]] = {}
    for run in board.excluded:
        out.setdefault((run.arm, run.reason), []).append(str(run.seed))
    lines += [
        f"- Left out: {arm}, seed {', '.join(seeds)}: {reason}."
        for (arm, reason), seeds in out.items()
    ]
    return "\n".join(lines)


def caption(board: Board) -> str:
    """Returns the sentences that explain the numbers."""
    bounded = board.bounds is not None and all(map(isfinite, board.bounds))
    kind = " (Korn-Graubard, inside its bounds)" if bounded else ""
    told = [f"Held-out score, mean over seeds with its 95 % interval{kind}."]
    if board.metric != HELDOUT:
        told.append(f"The study's own metric, for stopping and search, is {board.metric}.")
    if board.baseline:
        told.append(
            f"Differences are paired by seed with {board.baseline}, 95 % intervals, "
            f"Holm-corrected; equivalent means within ±{board.margin:g}."
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


def _spent(found: ToTarget, cost: str, *, told: bool = False) -> str:
    share = f" ({found.reached}/{found.runs})" if told and found.reached < found.runs else ""
    return (number(getattr(found, cost)) or "-") + share


def _figure(name: str) -> Callable[[Row], Any]:
    return lambda row: figures_of(row)[name]


_COUNT = ",.0f"
_COLUMNS: tuple[Column[Row], ...] = (
    Column("#", _figure("rank")),
    Column("arm", lambda row: row.arm, words=True),
    Column("seeds", _figure("seeds"), spare=8),
    Column("score", lambda row: row.score, span, key=_figure("score")),
    Column(
        "difference",
        lambda row: row.versus and row.versus.comparison.difference,
        partial(span, form="+.3f"),
        key=_figure("delta"),
    ),
    Column("verdict", _figure("verdict"), words=True),
    Column("certificate", lambda row: row.certificate.replace("none", ""), words=True, spare=2),
    Column("tokens", _figure("tokens"), _COUNT),
    Column("trained", _figure("trained_tokens"), _COUNT, spare=7),
    Column("wasted", _figure("wasted_share"), ".0%"),
    Column("seconds", _figure("wall_s"), _COUNT),
    Column(
        "tokens\nto target",
        lambda row: row.to_target,
        partial(_spent, cost="tokens", told=True),
        key=_figure("tokens_to_target"),
        spare=3,
    ),
    Column(
        "seconds\nto target",
        lambda row: row.to_target,
        partial(_spent, cost="seconds"),
        key=_figure("seconds_to_target"),
        spare=4,
    ),
    Column("front", _figure("front"), words=True, spare=5),
    Column("bias", _figure("bias"), words=True, spare=6),
    Column("unscorable", lambda row: row.unscorable or None, spare=1),
    Column("passes", _figure("forward_passes"), _COUNT, spare=9),
    Column("verified", _figure("verifier_calls"), _COUNT, spare=11),
    Column("R_gen", _figure("r_gen"), ".0%", spare=10),
)
