"""`gfcr list`."""

import argparse
from dataclasses import asdict
from typing import Any

from rich.text import Text

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.commands import Outcome
from gfcr.errors import unknown_name
from gfcr.shown.table import Column, Table

HELP = "Name every part by stage, and every strategy, with its description and paper."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", nargs="?", help="strategy, " + ", ".join(registry.KINDS))


def run(options: argparse.Namespace) -> Outcome:
    """Lists parts without importing them."""
    kinds = ["strategy", *registry.KINDS]
    if options.stage and options.stage not in kinds:
        raise unknown_name(options.stage, kind="stage", allowed=kinds)
    chosen = [options.stage] if options.stage else kinds
    found = {
        kind: strategies.entries() if kind == "strategy" else registry.entries(kind)
        for kind in chosen
    }
    data = {kind: [asdict(entry) for entry in entries] for kind, entries in found.items()}
    return Outcome(data=data, text=_table(found))


def _table(found: dict[str, list[registry.Entry]]) -> Any:
    def stage(row: tuple[int, registry.Entry]) -> Text:
        return Text("" if row[0] else row[1].kind, style="bold")

    return Table(
        rows=[row for entries in found.values() for row in enumerate(entries)],
        columns=(
            Column("stage", stage, words=True),
            Column("name", lambda row: row[1].name, words=True),
            Column("paper", lambda row: row[1].paper, words=True),
            Column("what it does", lambda row: row[1].summary, words=True, wraps=True),
        ),
    )
