"""`gfcr list`."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from rich.console import Group
from rich.text import Text

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.commands import Outcome
from gfcr.errors import unknown_name
from gfcr.registry import Entry
from gfcr.shown.folded import folded
from gfcr.shown.table import Column, Table
from gfcr.taxonomy import CELLS, PLACED

Found: TypeAlias = Mapping[str, Sequence[Entry]]
"""The entries of each kind."""


_MORE = (
    "",
    "gfcr list strategy   what each does, and its paper; so for every kind",
    "gfcr list --all      everything, under its cell of the survey's tree",
    "gfcr show NAME       what one does: its formula, its settings, when it hurts",
)
_NONE = Entry(name="", kind="", summary="no part yet", source="")


class Row(NamedTuple):
    """A part in its cell, with the cell's title before its first one."""

    cell: str
    title: str
    entry: Entry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", nargs="?", help="strategy, " + ", ".join(registry.KINDS))
    parser.add_argument("--all", action="store_true", help="every part, with what it does")


def run(options: argparse.Namespace) -> Outcome:
    """Lists parts without importing them."""
    kinds = ["strategy", *registry.KINDS]
    if options.stage and options.stage not in kinds:
        raise unknown_name(options.stage, kind="stage", allowed=kinds)
    found = entries([options.stage] if options.stage else kinds)
    text = plain(found) if options.stage else whole(found) if options.all else brief(found)
    cells = {} if options.stage else {"cells": coverage(found)}
    return Outcome(data={**found, **cells}, text=text)


def entries(kinds: Iterable[str]) -> Found:
    """Returns the entries of some kinds."""
    return {
        kind: strategies.entries() if kind == "strategy" else registry.entries(kind)
        for kind in kinds
    }


def coverage(found: Found) -> dict[str, dict[str, Any]]:
    """Returns each cell of the tree with its branch, its title and its number of parts."""
    placed = [entry.cell for kind in PLACED for entry in found[kind]]
    return {
        code: {"branch": cell.branch, "title": cell.title, "parts": placed.count(code)}
        for code, cell in CELLS.items()
    }


def brief(found: Found) -> Group:
    """Returns one screen: the names of strategies, and how many parts there are of each kind."""
    parts = {kind: len(listed) for kind, listed in found.items() if kind != "strategy"}
    counts = [f"{number:>6} {kind:<11}" for kind, number in parts.items()]
    lines = [f"[bold]{len(found['strategy'])} strategies[/]"]
    lines += ["  " + ", ".join(entry.name for entry in found["strategy"])]
    lines += [f"[bold]{sum(parts.values())} parts, by kind[/]"]
    lines += ["".join(counts[at : at + 4]) for at in range(0, len(counts), 4)]
    return folded([*lines, *_MORE])


def whole(found: Found) -> Group:
    """Returns the strategies, the tree with every part of the pipeline, and other parts."""
    rest = {kind: listed for kind, listed in found.items() if kind not in (*PLACED, "strategy")}
    return Group(plain({"strategy": found["strategy"]}), tree(found), plain(rest))


def tree(found: Found) -> Table[Row]:
    """Returns a table of every part of the pipeline under its cell."""
    parts = sorted((e for kind in PLACED for e in found[kind]), key=lambda e: (e.kind, e.name))
    rows = [
        Row(code, "" if number else f"{code} {cell.title}", entry)
        for code, cell in CELLS.items()
        for number, entry in enumerate([e for e in parts if e.cell == code] or [_NONE])
    ]
    covered = len({e.cell for e in parts})
    return Table(
        rows=rows,
        columns=(
            Column("cell", lambda row: Text(row.title, "bold"), words=True, wraps=True),
            Column("kind", lambda row: row.entry.kind, words=True),
            Column("part", lambda row: row.entry.name, words=True),
            Column("paper", lambda row: row.entry.paper, words=True),
            Column("defaults", lambda row: row.entry.origin, words=True),
            Column("what it does", lambda row: row.entry.summary, words=True, wraps=True),
        ),
        title="Generate, Filter, Control, Replay (2605.02913)",
        caption=f"{len(parts)} parts in {covered} of {len(CELLS)} cells. Defaults: P the paper's "
        "or its authors' code, S notes of others on it, ours our own choice.",
    )


def plain(found: Found) -> Table[tuple[int, Entry]]:
    """Returns a table of entries by kind."""
    return Table(
        rows=[row for listed in found.values() for row in enumerate(listed)],
        columns=(
            Column("stage", lambda row: Text("" if row[0] else row[1].kind, "bold"), words=True),
            Column("name", lambda row: row[1].name, words=True),
            Column("paper", lambda row: row[1].paper, words=True),
            Column("what it does", lambda row: row[1].summary, words=True, wraps=True),
        ),
    )
