"""Writes a file whole or not at all."""

import os
from pathlib import Path


def write_atomic(path: Path, text: str) -> None:
    """Writes `text` so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # It lies in the same folder, as a rename is atomic within one file system alone.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        # Without this a power cut could leave the new name with nothing in it.
        os.fsync(file.fileno())
    temporary.replace(path)
