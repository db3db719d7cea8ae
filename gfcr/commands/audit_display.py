"""The display of `gfcr audit`: live progress on stderr, tables at the end."""

import time
from collections.abc import Sequence
from typing import final

from rich.text import Text

from gfcr.certificate.cell import Cell
from gfcr.commands.display import Bar
from gfcr.shown.table import Column, Table

EACH_S = 30.0
"""Seconds between lines of progress."""
STYLES = {"lossless": "green", "biased": "bold red", "inconclusive": "yellow"}


@final
class AuditDisplay(Bar):
    """A bar over the cells, with a line for each cell that has ended; see `audit.run.Watch`."""

    def __init__(self, *, cells: int) -> None:
        super().__init__("cells", total=cells)
        self._now = ""
        self._first, self._said = (0, 0.0), 0.0

    def begin(self, drafter: str, setting: str) -> None:
        self._first, self._said = (0, 0.0), time.monotonic()
        self.told = self._now = f"{drafter} x {setting}"

    def progress(self, *, tokens: int, power: float, wanted: int) -> None:
        """See `Watch.progress`. Each half minute it is a line, too."""
        now = time.monotonic()
        self._first = self._first if self._first[1] else (tokens, now)
        new, seconds = tokens - self._first[0], now - self._first[1]
        self.told = f"{self._now}: {tokens:,} tokens, power {power:.2f}"
        if wanted > tokens and new > 0:
            minutes = (wanted - tokens) * seconds / new / 60
            self.told += f", about {wanted - tokens:,} missing ({minutes:.0f} min)"
        if now - self._said > EACH_S:
            self._said = now
            self.say(self.told)

    def end(self, cell: Cell) -> None:
        self.advance(self.task)
        self.say(f"{cell.drafter} x {cell.setting}: {cell.verdict}, {cell.reason}")


def audit_table(cells: Sequence[Cell]) -> Table[Cell]:
    """Returns a table with one row per cell."""
    title = "Does the engine sample from the target distribution?"
    return Table(rows=cells, columns=_CELLS, title=title)


_CELLS: tuple[Column[Cell], ...] = (
    Column("drafter", lambda c: c.drafter, words=True),
    Column("setting", lambda c: c.setting, words=True),
    Column(
        "verdict",
        lambda c: Text("refused" if c.refused else c.verdict, style=STYLES[c.verdict]),
        words=True,
    ),
    Column("least likely test", lambda c: c.test + _distribution(c), words=True, wraps=True),
    Column("statistic", lambda c: c.statistic, ".2f"),
    Column("p", lambda c: c.p_value, ".2g"),
    Column("power", lambda c: c.power, ".3f"),
    Column("tokens", lambda c: c.tokens),
    Column("drafted", lambda c: c.drafted),
    Column("accepted", lambda c: c.accepted),
)


def _distribution(cell: Cell) -> str:
    """Returns the distribution that the test's statistic is compared with."""
    return f" (chi2, {cell.df})" if cell.df > 0 else " (z)" if cell.test and cell.df == 0 else ""
