"""What `gfcr audit` shows: live progress on stderr, tables at the end."""

import sys
from collections.abc import Sequence
from typing import final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gfcr.certificate.cell import Cell

STYLES = {"lossless": "green", "biased": "bold red", "inconclusive": "yellow"}


@final
class AuditDisplay:
    """A bar over the cells; a line for each cell that has ended. See `audit.run.Watch`."""

    def __init__(self, *, cells: int) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("cells"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("", total=cells)
        self._now = ""

    def __enter__(self) -> "AuditDisplay":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, drafter: str, setting: str) -> None:
        """See `Watch.begin`."""
        self._now = f"{drafter} x {setting}"
        self._bar.update(self._task, description=self._now)

    def progress(self, *, tokens: int, power: float) -> None:
        """See `Watch.progress`."""
        text = f"{self._now}: {tokens} tokens, power {power:.2f}"
        self._bar.update(self._task, description=text)

    def end(self, cell: Cell) -> None:
        """See `Watch.end`."""
        self._bar.advance(self._task)
        line = f"{cell.drafter} x {cell.setting}: {cell.verdict}, {cell.reason}"
        self._console.print(line, highlight=False, markup=False)


def audit_table(cells: Sequence[Cell]) -> Table:
    """One row a cell."""
    table = Table(title="Does the engine sample from the target distribution?")
    for name in ("drafter", "setting", "verdict", "least likely test"):
        table.add_column(name)
    for name in ("statistic", "p", "power", "tokens", "drafted", "accepted"):
        table.add_column(name, justify="right")
    for c in cells:
        word = "refused" if c.refused else c.verdict
        table.add_row(
            c.drafter,
            c.setting,
            f"[{STYLES[c.verdict]}]{word}[/]",
            c.test + (f" (chi2, {c.df})" if c.df > 0 else " (z)" if c.test and c.df == 0 else ""),
            f"{c.statistic:.2f}",
            f"{c.p_value:.2g}",
            f"{c.power:.3f}",
            str(c.tokens),
            str(c.drafted),
            str(c.accepted),
        )
    return table
