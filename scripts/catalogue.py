"""Writes docs/catalogue.md: the survey's tree, every part under its cell.

python scripts/catalogue.py
"""

from collections.abc import Mapping
from pathlib import Path

from gfcr import registry, strategy
from gfcr.commands.list import entries, tree
from gfcr.shown.table import Table
from gfcr.taxonomy import CELLS, ORIGINS

PAGE = Path(__file__).parents[1] / "docs" / "catalogue.md"
HEAD = """<!-- scripts/catalogue.py wrote this from what `gfcr list --all` tells -->

# Catalogue

Every part of the pipeline, under its cell of the survey's tree (Generate, Filter, Control, Replay,
[2605.02913](https://arxiv.org/abs/2605.02913); cells are called by its sections).
`gfcr list --all` prints it, `gfcr show PART` what a part does, its settings and when it hurts;
[Strategies](strategies.md) are made of them.
"""
LEAVES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "G4.2": {
        "one trajectory": ("spo", "absolute_zero"),
        "a group of candidates": ("grpo", "rloo", "dapo"),
        "trees": ("treerl", "treepo", "spo_tree", "fr3e", "s_grpo"),
        "turns, tools, environments": ("multi_turn", "stepwise", "arpo"),
    },
    "G4.3": {
        "examples": ("few_shot",),
        "plans and answers as conditions": ("plan_then_act", "opsd"),
        "reflection and repair": ("self_repair", "budget_forcing"),
        "guidance of adaptive strength": ("scaf_grpo", "prefix_restart"),
        "tools and what they print": ("multi_turn", "arpo"),
    },
    "G4.4": {
        "decoding and diversity": ("temperature_ladder", "treerl"),
        "uncertainty as a signal to explore": ("fr3e", "arpo"),
        "sampling alone": ("power_sampling",),
        "a language model that guides another agent": (),
    },
}
"""What the survey tells apart within cells of Generate, and strategies that do it. The last one is
about agents that are no language models."""


def leaves(code: str) -> list[str]:
    """Says which strategies cover what the survey tells apart in a cell."""
    found: list[str] = []
    for leaf, names in LEAVES.get(code, {}).items():
        unknown = {*names} - {*strategy.names()}
        assert not unknown, f"{leaf}: there is no strategy {unknown}"
        links = (f"[`{name}`](strategies.md#{name})" for name in names)
        found.append(f"- {leaf}: {', '.join(links) or 'none, gfcr trains language models'}")
    return ["\n".join(found) + "\n"] if found else []


def page() -> str:
    """The whole page."""
    table = tree(entries(registry.KINDS))
    said = "; ".join(f"`{key}` {words}" for key, words in ORIGINS.items())
    lines = [HEAD, f"Where defaults come from: {said}.\n"]
    branch = ""
    for code, cell in CELLS.items():
        lines += [f"## {cell.branch}\n"] if cell.branch != branch else []
        branch = cell.branch
        rows = [row for row in table.rows if row.cell == code and row.entry.name]
        lines.append(f"### {code} {cell.title}\n\n{cell.gloss.capitalize()}.\n")
        lines += leaves(code)
        parts = Table(rows=rows, columns=table.columns[1:]).markdown()
        lines.append(parts if rows else "No part yet.\n")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
