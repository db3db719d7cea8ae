"""`gfcr list`."""

import argparse
from dataclasses import asdict
from typing import Any

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.commands import Outcome
from gfcr.errors import unknown_name

HELP = "Name every part by stage, and every strategy, with its description and paper."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
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
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("stage", "name"):
        table.add_column(head, no_wrap=True)
    table.add_column("paper", max_width=11)
    table.add_column("what it does")
    for kind, entries in found.items():
        for index, entry in enumerate(entries):
            stage = f"[bold]{kind}[/]" if index == 0 else ""
            table.add_row(stage, entry.name, entry.paper, escape(entry.summary))
        table.add_section()
    return table
