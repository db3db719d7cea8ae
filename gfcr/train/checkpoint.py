"""Checkpoints that are either complete or not there.

`folder/checkpoint-N` holds the run after N updates. Its last file, `gfcr_state.pkl`, is written
atomically when all others are on disk: a folder without it was cut short and is never resumed from.
"""

import os
import pickle
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gfcr.errors import CheckpointError

MARKER: Final = "gfcr_state.pkl"
_NAME: Final = re.compile(r"checkpoint-(\d+)")


def path_of(folder: Path, *, step: int) -> Path:
    """Where the checkpoint after `step` updates lies."""
    return folder / f"checkpoint-{step}"


def step_of(checkpoint: Path) -> int:
    """Updates done when `checkpoint` was written."""
    match = _NAME.fullmatch(checkpoint.name)
    assert match, checkpoint
    return int(match[1])


def commit(checkpoint: Path, *, state: Mapping[str, Any], keep: int) -> None:
    """Completes `checkpoint` with the rollout side's state; drops all but the newest `keep`."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    for path in checkpoint.rglob("*"):
        _flush(path)
    draft = checkpoint / f"{MARKER}.tmp"
    with draft.open("wb") as file:
        pickle.dump(dict(state), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(checkpoint / MARKER)
    _flush(checkpoint)
    for old in complete(checkpoint.parent)[:-keep]:
        # The marker goes first, so that a deletion cut short leaves no complete-looking folder.
        (old / MARKER).unlink()
        shutil.rmtree(old)


def complete(folder: Path) -> list[Path]:
    """Complete checkpoints in `folder`, oldest first."""
    return [path for path in _all(folder) if (path / MARKER).exists()]


def newest(folder: Path) -> Path | None:
    """The checkpoint to resume from, if any; incomplete ones are renamed `...incomplete`."""
    for path in _all(folder):
        if not (path / MARKER).exists():
            aside = path.with_name(f"{path.name}.incomplete")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
    return next(reversed(complete(folder)), None)


def load(checkpoint: Path) -> dict[str, Any]:
    """Reads the rollout side's state.

    Raises:
        CheckpointError: the file cannot be read by this version of the code.
    """
    try:
        with (checkpoint / MARKER).open("rb") as file:
            return pickle.load(file)
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError) as error:
        raise CheckpointError(
            f"{checkpoint / MARKER} cannot be read ({error}): it was written by another version of "
            "gfcr or of a part. Go back to that version, or rename the folder to resume from an "
            "older checkpoint."
        ) from error


def _all(folder: Path) -> list[Path]:
    found = [p for p in folder.glob("checkpoint-*") if _NAME.fullmatch(p.name) and p.is_dir()]
    return sorted(found, key=step_of)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
