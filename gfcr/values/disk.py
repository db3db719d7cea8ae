"""Writes files whole or not at all, and puts what was written on the disk."""

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path


def flush(paths: Iterable[Path]) -> None:
    """Flushes files, and folders with the names in them, to the disk; what is gone is left out."""
    for path in filter(Path.exists, paths):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Gives a file to write to that then replaces `path`: readers see the old one or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # It lies in the same folder, as a rename is atomic within one file system alone.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    yield temporary
    temporary.replace(path)


def set_aside(path: Path, *, word: str) -> Path:
    """Renames a file or folder to the first free `NAME.WORD-NUMBER`, from 1, and returns that."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{word}-{number}")).exists():
        number += 1
    return path.rename(aside)


def write_atomic(path: Path, text: str) -> None:
    """Writes `text` whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        # Without this a power cut could leave the new name with nothing in it.
        flush([temporary])
