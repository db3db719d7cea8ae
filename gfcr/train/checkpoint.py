"""Checkpoints that are either complete or recognised as damaged.

`folder/checkpoint-N` holds the run after N updates: the trainer's files, and what the rollout side
remembers (`gfcr.train.state_file`). Its last file, `gfcr_checkpoint.json`, has the SHA-256 of every
other one and is written atomically when all are on disk: a folder without it was cut short and is
never resumed from, and one with a changed byte anywhere is found out.
"""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gfcr.errors import CheckpointError, ForeignCheckpointError
from gfcr.train import state_file
from gfcr.train.base import BatchSource
from gfcr.values.disk import flush, write_atomic

MARKER: Final = "gfcr_checkpoint.json"
_NAME: Final = re.compile(r"checkpoint-(\d+)")


def path_of(folder: Path, *, step: int) -> Path:
    """Returns the folder of the checkpoint after `step` updates."""
    return folder / f"checkpoint-{step}"


def step_of(checkpoint: Path) -> int:
    """Returns the number of updates done when `checkpoint` was written."""
    match = _NAME.fullmatch(checkpoint.name)
    assert match, checkpoint
    return int(match[1])


def commit(checkpoint: Path, *, state: Mapping[str, Any], keep: int) -> None:
    """Completes `checkpoint` with the rollout side's state; drops all but the newest `keep`.

    Raises:
        CheckpointError: a part's memory cannot be written as data; nothing is completed.
    """
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / MARKER).unlink(missing_ok=True)  # incomplete until all files are written
    state_file.write(checkpoint, state=state)
    text = _manifest({name: _digest(checkpoint / name) for name in _files(checkpoint)})
    # All is on disk before the marker says so: a power cut may keep the later write alone.
    flush(checkpoint.rglob("*"))
    _mark(checkpoint, text)
    # The folder's own entry is on disk before older checkpoints are given up for it.
    flush([checkpoint.parent])
    _drop_old(checkpoint.parent, keep=keep)


def drop_optimizers(folder: Path) -> None:
    """Removes the optimizers' state, two thirds of a checkpoint, once nothing is resumed any more.

    A checkpoint that is damaged stays as it is.
    """
    for found in complete(folder):
        with suppress(CheckpointError):
            held = _digests(found)
            kept = {n: digest for n, digest in held.items() if not n.startswith("optimizer")}
            _mark(found, _manifest(kept))  # first, so that no file of the marker is missing
            for name in held.keys() - kept.keys():
                (found / name).unlink()


def complete(folder: Path) -> list[Path]:
    """Returns the complete checkpoints in `folder`, oldest first."""
    return [path for path in _all(folder) if (path / MARKER).exists()]


def newest(folder: Path) -> Path | None:
    """Returns the newest complete checkpoint, or None; renames incomplete ones `...incomplete`."""
    for path in _all(folder):
        if not (path / MARKER).exists():
            _rename(path, suffix="incomplete")
    return next(reversed(complete(folder)), None)


def resume(folder: Path, *, source: BatchSource, keep: int) -> Path | None:
    """Restores `source` from the newest undamaged checkpoint and returns it; None for a new run.

    A damaged checkpoint is reported on stderr and renamed `...damaged`; the updates since the one
    before it are repeated, with equal results. Drops all but the newest `keep` checkpoints, in case
    the run was killed before it could.

    Raises:
        CheckpointError: all checkpoints are damaged.
        ForeignCheckpointError: an undamaged one is another run's; nothing is renamed.
    """
    # Incomplete ones are put aside, as their updates are made again under the same names.
    newest(folder)
    whole = newest_whole(folder, read=lambda found: source.load_state_dict(load(found)))
    if whole is None:
        return None
    found, damaged = whole
    for path, error in damaged:
        _rename(path, suffix="damaged")
        words = f"It is now {path.name}.damaged, and the run goes on from {found.name}."
        print(f"gfcr: {error} {words}", file=sys.stderr)
    _drop_old(folder, keep=keep)
    return found


def newest_whole(
    folder: Path, *, read: Callable[[Path], object]
) -> tuple[Path, list[tuple[Path, CheckpointError]]] | None:
    """Returns the newest checkpoint that can be read, and the damaged ones after it.

    None where there is no checkpoint; errors as `resume`.
    """
    damaged: list[tuple[Path, CheckpointError]] = []
    for found in reversed(complete(folder)):
        try:
            read(found)
        # It is not damaged but another run's, from which renaming would take it.
        except ForeignCheckpointError:
            raise
        except CheckpointError as error:
            damaged.append((found, error))
        else:
            return found, damaged
    if damaged:
        raise CheckpointError(
            f"{damaged[0][1]} No checkpoint before it is whole: put the file back, or start over "
            f"with --fresh, which keeps this folder under another name."
        ) from damaged[0][1]
    return None


def load(checkpoint: Path) -> dict[str, Any]:
    """Reads the rollout side's state, after a look at every file of the checkpoint.

    Raises:
        CheckpointError: a file is missing, has changed, or is not of this version of the code.
    """
    wanted = _digests(checkpoint)
    for name, digest in wanted.items():
        path = checkpoint / name
        if not path.exists():
            raise CheckpointError(f"{path} is missing.{_other(checkpoint)}")
        if _digest(path) != digest:
            raise CheckpointError(
                f"{path} is damaged: its SHA-256 is not the one in {MARKER}.{_other(checkpoint)}"
            )
    try:
        return state_file.read(checkpoint)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}: it was written by another version of gfcr or of a part. Go back to that "
            f"version.{_other(checkpoint)}"
        ) from error


def _digests(checkpoint: Path) -> dict[str, str]:
    path = checkpoint / MARKER
    try:
        text = path.read_text("utf-8")
        files: dict[str, str] = json.loads(text)["files"]
        whole = text == _manifest(files) and bool(files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        whole, files = False, {}
    if not whole:
        raise CheckpointError(f"{path} is damaged or missing.{_other(checkpoint)}")
    return files


def _mark(checkpoint: Path, text: str) -> None:
    write_atomic(checkpoint / MARKER, text)
    flush([checkpoint])  # the marker's directory entry, too


def _manifest(files: dict[str, str]) -> str:
    """Returns the marker's text, which holds its own digest too."""
    own = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    return json.dumps({"files": files, "sha256": own}, indent=1, sort_keys=True) + "\n"


def _other(checkpoint: Path) -> str:
    """Returns a sentence that names the checkpoint before, or nothing."""
    before = [p for p in complete(checkpoint.parent) if step_of(p) < step_of(checkpoint)]
    return f" The checkpoint before it is {before[-1]}." if before else ""


def _files(checkpoint: Path) -> list[str]:
    # A marker that was being written when its process was killed is no file of a checkpoint.
    half = f".{MARKER}."
    found = (p for p in checkpoint.rglob("*") if p.is_file() and not p.name.startswith(half))
    return sorted(str(path.relative_to(checkpoint)) for path in found)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _all(folder: Path) -> list[Path]:
    found = [p for p in folder.glob("checkpoint-*") if _NAME.fullmatch(p.name) and p.is_dir()]
    return sorted(found, key=step_of)


def _drop_old(folder: Path, *, keep: int) -> None:
    for old in complete(folder)[:-keep]:
        # The marker goes first, so that a deletion cut short leaves no complete-looking folder.
        (old / MARKER).unlink()
        shutil.rmtree(old)


def _rename(path: Path, *, suffix: str) -> None:
    aside = path.with_name(f"{path.name}.{suffix}")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
