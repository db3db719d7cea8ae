"""The commands of docs/first-hour.md and what they say: python -m tests.integration.first_hour.

It makes the page's transcript anew.
"""

import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

from tests import small_chat
from tests.commands import gfcr

PAGE = small_chat.ROOT / "docs" / "first-hour.md"
_TRANSCRIPT = re.compile(r'(?<=```text title="transcript"\n).*?(?=```)', re.S)


def bring(folder: Path, *, model: Path) -> None:
    """Puts the page's files and a model where its reader has them."""
    files = re.findall(r'```\w+ title="(\w+\.\w+)"\n(.*?)```', PAGE.read_text(), re.S)
    assert [name for name, _ in files] == ["questions.jsonl", "rewards.py", "mine.yaml"]
    for name, text in files:
        (folder / name).write_text(text)
    shutil.copytree(model, folder / "my-model")


def transcript(folder: Path) -> str:
    """Runs the page's commands of gfcr as they stand there, with what they say below each."""
    said: list[str] = []
    for command in re.findall(r"^gfcr .*$", PAGE.read_text(), re.M):
        with patch.dict(os.environ, COLUMNS="104"):
            done = gfcr(*shlex.split(command)[1:], cwd=folder)
        assert done.returncode == 0, done.stderr
        said += [f"$ {command}", *_lines(done.stderr), *_lines(done.stdout)]
    return "\n".join(said) + "\n"


def shown() -> str:
    """The transcript that the page shows."""
    return _TRANSCRIPT.findall(PAGE.read_text())[0]


def plain(text: str) -> list[str]:
    """Its lines without what differs between machines and commits: numbers, ids and widths."""
    text = re.sub(r"seed-0-\w+", "seed-0-id", text)
    return [" ".join(re.sub(r"[-+]?\d[\d,.]*|─+", "0", x).split()) for x in text.splitlines()]


def _lines(text: str) -> list[str]:
    """Without progress bars of libraries, and their words on this machine."""
    kept = [line.rstrip().rpartition("\r")[2] for line in text.split("\n")]
    return [line for line in kept if line and not re.search(r"^\[?[WIE]\d{4} |/s\]$", line)]


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        small_chat.make(folder / "small")
        bring(folder, model=folder / "small" / "model")
        text = transcript(folder)
    PAGE.write_text(_TRANSCRIPT.sub(lambda _: text, PAGE.read_text()))


if __name__ == "__main__":
    main()
