"""Puts what was written on the disk, so that a power cut leaves it there."""

import os
from collections.abc import Iterable
from pathlib import Path


def flush(paths: Iterable[Path]) -> None:
    """Flushes files, and folders with the names in them, to the disk; what is gone is left out."""
    for path in filter(Path.exists, paths):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
