"""Writes docs/catalogue.md: the survey's tree, every part under its cell.

python scripts/catalogue.py
"""

from pathlib import Path

from gfcr import registry
from gfcr.commands.list import entries, tree
from gfcr.shown.table import Table
from gfcr.taxonomy import CELLS, ORIGINS

PAGE = Path(__file__).parents[1] / "docs" / "catalogue.md"
HEAD = """<!-- scripts/catalogue.py wrote this from what `gfcr list` tells -->

# Catalogue

Every part of the pipeline, under its cell of the survey's tree (Generate, Filter, Control, Replay,
[2605.02913](https://arxiv.org/abs/2605.02913); cells are called by its sections). `gfcr list`
prints it, `gfcr show PART` what a part does, its settings and when it hurts;
[Strategies](strategies.md) are made of them.
"""


def page() -> str:
    """The whole page."""
    table = tree(entries(registry.KINDS))
    said = "; ".join(f"`{key}` {words}" for key, words in ORIGINS.items())
    lines = [HEAD, f"Where defaults come from: {said}.\n"]
    branch = ""
    for code, cell in CELLS.items():
        lines += [f"## {cell.branch}\n"] if cell.branch != branch else []
        branch = cell.branch
        rows = [row for row in table.rows if row.cell == code and row.entry]
        lines.append(f"### {code} {cell.title}\n\n{cell.gloss.capitalize()}.\n")
        parts = Table(rows=rows, columns=table.columns[1:]).markdown()
        lines.append(parts if rows else "No part yet.\n")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
