"""The documents' fenced blocks, and their marks: `<!-- long: an hour -->` on the line before."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# By the script of that name; a test compares the two.
GENERATED = [ROOT / "docs" / f"{name}.md" for name in ("contract", "strategies", "results/claims")]
WRITTEN = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "requirements/README.md")),
    *sorted(p for p in (ROOT / "docs").glob("*.md") if p not in GENERATED),
    *sorted(p for p in (ROOT / "docs" / "results").glob("*.md") if p not in GENERATED),
    *sorted((ROOT / "experiments").rglob("README.md")),
]
"""Pages that people write. Those of notebooks are compared with the notebooks, which tests run."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    title: str
    """Name of the file that it shows, or empty."""
    mark: str
    """`long`, `needs` or `run by`; empty for one that the tests of pages run."""
    reason: str
    text: str

    @property
    def at(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> Iterator[list[str]]:
        """The words of each command of a shell block, without comments."""
        for line in re.sub(r"\\\n\s*", " ", self.text).splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def blocks(page: Path) -> list[Block]:
    """A page's fenced blocks, in order."""
    text = page.read_text()
    mark = r"(?:^ *<!-- (?P<mark>long|needs|run by): (?P<reason>.+?) -->\n)?"
    fence = r"^(?P<indent> *)```(?P<head>[^\n`]*)\n(?P<text>.*?)^ *```$"
    found = re.finditer(mark + fence, text, re.M | re.S)
    return [_block(m, page=page, line=text.count("\n", 0, m.start("head")) + 1) for m in found]


def _block(found: re.Match[str], *, page: Path, line: int) -> Block:
    head, _, rest = found["head"].strip().partition(" ")
    title = re.search(r'title="([^"]+)"', rest)
    return Block(
        page=page,
        line=line,
        language=head,
        title=title[1] if title else "",
        mark=found["mark"] or "",
        reason=found["reason"] or "",
        text=re.sub(rf"^{found['indent']}", "", found["text"], flags=re.M),
    )


def command_of(page: str, *, holding: str) -> list[str]:
    """The words of the one command of a page that has all of these."""
    of_shell = (b for b in blocks(ROOT / page) if b.language == "bash")
    commands = [words for block in of_shell for words in block.commands]
    (words,) = [words for words in commands if set(holding.split()) <= set(words)]
    return words


def all_blocks(*languages: str) -> list[Block]:
    """The blocks of all written pages, in these languages if any are named."""
    found = [block for page in WRITTEN for block in blocks(page)]
    return [block for block in found if not languages or block.language in languages]
