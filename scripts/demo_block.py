"""Writes what `gfcr demo` printed into README.md, from the store of the demo that ran here.

gfcr demo && python scripts/demo_block.py
"""

import io
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from gfcr import leaderboard, sweep
from gfcr.commands.demo import study_file
from gfcr.commands.reported import report_study

PAGE = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(?<=<!-- demo -->\n```text\n).*?(?=```\n<!-- /demo -->)", re.S)


def block(overrides: Sequence[str] = (), *, width: int = 120) -> str:
    """The demo's table and where its report is, as they are printed in `width` columns."""
    board, words = report_study(sweep.load(study_file(), overrides=overrides))
    page = io.StringIO()
    console = Console(file=page, width=width, highlight=False)
    console.print(leaderboard.to_rich(board))
    console.print(f"\n{words}", soft_wrap=True)
    lines = [line.rstrip() for line in page.getvalue().strip("\n").splitlines()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: block(), PAGE.read_text(), count=1))
