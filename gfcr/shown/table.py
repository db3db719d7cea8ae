"""One table for all that is shown as one: in terminals and notebooks, as Markdown, as CSV.

A table is rows and a list of columns, and a column says what stands in it: what a table shows is
read in one place, and every place that shows it shows the same.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from rich.cells import cell_len
from rich.jupyter import JupyterMixin
from rich.markup import escape
from rich.text import Text

from gfcr.shown.text import csv_cell, markdown, plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable

R = TypeVar("R")
_GAP = 2
"""Columns of a terminal between two of the table."""
_FOLDED = 12
"""Columns of a terminal that words have at least where they are folded: a verdict stays whole."""


@final
@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """What stands in one column."""

    head: str
    value: Callable[[R], Any]
    """Of a row; None, or a number that is not finite, where there is none."""
    shown: str | Callable[[Any], object] | None = None
    """How it is written: a format, or a function to its text or a `rich.text.Text` (colours)."""
    _: KW_ONLY
    key: Callable[[R], Any] | None = None
    """What a reader may sort by, where it is not the value."""
    words: bool = False
    """Words stand left and may be of anybody's choosing; figures stand right."""
    wraps: bool = False
    """Whether a narrow terminal folds it, rather than cutting it off."""
    spare: int = 0
    """Above 0: left out where no row has any, and in a narrow terminal the highest first."""

    def cell(self, row: R) -> object:
        """Returns what stands in a row, to be written by `str`; nothing where it is unknown."""
        value = self.value(row)
        if value is None or (isinstance(value, float) and not isfinite(value)):
            return ""
        if self.shown is None:
            return value
        return format(value, self.shown) if isinstance(self.shown, str) else self.shown(value)


@final
@dataclass(frozen=True, kw_only=True)
class Table(JupyterMixin, Generic[R]):
    """Rows, to be printed by rich or written down."""

    rows: Sequence[R]
    columns: Sequence[Column[R]]
    title: str = ""
    caption: str = ""
    style: Callable[[R], str] = lambda row: ""
    """The style of a row in a terminal."""

    def markdown(self) -> str:
        """Returns a table in Markdown, in which no word acts as markup."""
        columns = self.said
        lines = [[" ".join(c.head.split()) for c in columns], ["---"] * len(columns)]
        for row in self.rows:
            cells = [(c.words, str(c.cell(row))) for c in columns]
            lines.append([markdown(text) if words else text for words, text in cells])
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def data(self) -> dict[str, Any]:
        """Returns heads, and of each row what stands below them and what to sort them by."""
        columns = self.said
        return {
            "heads": [{"name": " ".join(c.head.split()), "words": c.words} for c in columns],
            "rows": [
                [{"text": str(c.cell(row)), "key": plain((c.key or c.value)(row))} for c in columns]
                for row in self.rows
            ],
        }

    @property
    def said(self) -> list[Column[R]]:
        """The columns that say something of any row."""
        return [column for column in self.columns if self._said(column)]

    def rich(self, *, width: int) -> "RichTable":
        """Returns a table for a terminal of `width` columns.

        An interval stands below its number. Where there is little room, columns stand closer, spare
        ones are left out and named, words are folded, and at last each row becomes lines of its
        own. A figure is never cut.
        """
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        columns, room, folded = self._fitting(width)
        left = [" ".join(c.head.split()) for c in self.said if c not in columns]
        told = f"No room for: {', '.join(left)} (--json has all)." if left else ""
        table = RichTable(
            title=escape(self.title),
            caption=escape(" ".join(filter(None, (self.caption, told)))),
            box=SIMPLE_HEAD,
            padding=(0, int(room >= 0)),
            pad_edge=False,
            collapse_padding=True,
        )
        if room + len(columns) < 1:
            return self._stacked(table)
        for c in columns:
            folds = c.wraps or (folded and c.words)
            side = "left" if c.words else "right"
            table.add_column(c.head, justify=side, no_wrap=not folds, overflow="fold")
        for row in self.rows:
            cells = ((c.words, c.cell(row)) for c in columns)
            shown = (
                cell if isinstance(cell, Text) else escape(_tall(cell, words=words))
                for words, cell in cells
            )
            table.add_row(*shown, style=self.style(row))
        return table

    def _stacked(self, table: "RichTable") -> "RichTable":
        """Every cell on lines of its own, behind what it is."""
        table.show_header, table.caption = False, escape(self.caption)
        table.add_column(overflow="fold")
        for row in self.rows:
            for c in self.said:
                cell = c.cell(row)
                text = cell if isinstance(cell, Text) else Text(_tall(cell, words=c.words))
                line = Text.assemble((f"{' '.join(c.head.split())}: ", "dim"), text)
                table.add_row(line, style=self.style(row))
            table.add_row("")
        return table

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        yield self.rich(width=options.max_width)

    def _said(self, column: Column[R]) -> bool:
        return not column.spare or any(str(column.cell(row)) for row in self.rows)

    def _fitting(self, width: int) -> tuple[list[Column[R]], int, bool]:
        """The columns that fit, in the table's order, what room they leave, and whether words fold.

        Room below 0 is what is missing; columns that stand closer need one less for each gap.
        """
        for folded in (False, True):
            room, kept = width, list[Column[R]]()
            for column in sorted(self.columns, key=lambda column: column.spare):
                need = self._need(column, folded=folded)
                if not column.spare or (self._said(column) and need <= room):
                    kept.append(column)
                    room -= need
            if room + len(kept) >= 1:
                break
        return [column for column in self.columns if column in kept], room, folded

    def _need(self, column: Column[R], *, folded: bool) -> int:
        cells = [_tall(c, words=column.words) for c in (column.head, *map(column.cell, self.rows))]
        longest = [max(map(cell_len, text.split("\n"))) for text in cells]
        folds = column.wraps or (folded and column.words)
        return _GAP + (max(longest[0], min(max(longest), _FOLDED)) if folds else max(longest))


def csv_of(lines: Sequence[Mapping[str, Any]]) -> str:
    """Returns CSV with a column for every key, in the order of their coming.

    What is not known is empty, and a text stands on one line.
    """
    cells = [{csv_cell(key): csv_cell(v) for key, v in line.items()} for line in lines]
    text = io.StringIO()
    heads = dict.fromkeys(key for line in cells for key in line)
    writer = csv.DictWriter(text, list(heads), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    return text.getvalue()


def _tall(cell: object, *, words: bool) -> str:
    return str(cell) if words else str(cell).replace(" [", "\n[")
