"""How a run ends: with its result, or broken off by an error, a signal or a full disk."""

import errno
import os
import shutil
import traceback
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gfcr.errors import CheckpointError, FolderLost, GfcrError, StoreError
from gfcr.experiment.provenance import went_on
from gfcr.experiment.resolved import Resolved
from gfcr.experiment.source import RunSource
from gfcr.process.signals import Interrupted
from gfcr.tracking import ended
from gfcr.tracking.folder import RunFolder
from gfcr.train import checkpoint, state_file

_DISK: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space: the quota is used up",
    errno.EFBIG: "raise the limit on the size of files",
    errno.EROFS: "mount it for writing",
    errno.EACCES: "allow this user to read and write there",
    errno.EPERM: "allow this user to read and write there",
    errno.EIO: "look after the disk",
    errno.ESTALE: "mount the network folder again",
}
"""The remedy for each error of the operating system that is no fault of the run."""


def identity(resolved: Resolved) -> dict[str, Any]:
    """Returns the fields of every result that say which run it is of."""
    config, records = resolved.config, RunFolder(resolved.folder)
    return {
        "run_id": resolved.run_id,
        "study": config.study,
        "arm": config.name,
        "strategy": resolved.strategy.name,
        "seed": config.seed,
        "attempt": records.attempt,
        "roster": dict(records.card().roster),
    }


def end(resolved: Resolved, *, records: RunFolder, result: Mapping[str, Any]) -> None:
    """Writes the code tags and result of a run that has ended: to the folder, then the store."""
    held = records.card()
    now = replace(held, tags={**held.tags, **resolved.code()})
    records.create(went_on(now, held=held))
    ended.end(records, status=result["status"], result=result)
    # The result is written by now: a run that is killed before it needs its optimizer.
    if result["status"] == "finished":
        resolved.trainer.finished(resolved.folder / "checkpoints")
    resolved.tracker.finish(status=result["status"], result=result)


def break_off(
    resolved: Resolved, *, records: RunFolder, source: RunSource | None, error: BaseException
) -> None:
    """Writes the result of a run that was interrupted or has failed.

    Nothing is written of a run that has lost its lock, and may have lost its folder to another
    process: as after a kill, the next command finds it `running` by a process that has ended.
    """
    if isinstance(error, FolderLost):
        return
    checkpoints = resolved.folder / "checkpoints"
    result: dict[str, Any] = {**identity(resolved), "folder": str(resolved.folder)}
    last = checkpoint.newest(checkpoints)
    updates = checkpoint.step_of(last) if last else 0
    if isinstance(error, KeyboardInterrupt):
        result |= {"status": "paused", "interrupted": str(error) or "SIGINT", "updates": updates}
    elif (problem := disk_problem(error, folder=resolved.folder)) is not None:
        # What the run will make again is no use to anyone, and its room is needed for these lines.
        # (A file that is still open keeps it.)
        traceback.clear_frames(error.__traceback__)
        records.make_room(updates=updates, kept=_vouched(last))
        for cut in checkpoints.glob("*.incomplete"):
            shutil.rmtree(cut, ignore_errors=True)
        result |= {"status": "failed", "error": str(problem)}
    else:
        result |= {"status": "failed", "error": str(error)}
    if isinstance(error, Interrupted):
        error.paused = result
    try:
        if source is None or not source.begun:
            resolved.tracker.start(records.card(), folder=resolved.folder)
        end(resolved, records=records, result=result)
    except OSError:  # the error that led here is told, not that its record has no room
        with suppress(OSError):
            records.drop_halves()
            records.set_status(result["status"])


def _vouched(last: Path | None) -> Collection[str]:
    """Returns the rollout files that a checkpoint needs: of batches made ahead of it, too."""
    if last is not None:
        with suppress(CheckpointError):
            state = state_file.read(last)
            return state.get("work", state)["mark"].rollouts
    return ()


def disk_problem(error: BaseException, *, folder: Path) -> StoreError | None:
    """Returns an error that says what to do about the disk; None if the cause is another."""
    # Ours may quote a verifier, whose files are none of the run's.
    cause = error.__cause__ if isinstance(error, GfcrError) else error
    number = cause.errno if isinstance(cause, OSError) else None
    if number not in _DISK:
        # Libraries that write files by themselves keep the system's words at most; PyTorch none.
        words = {**{os.strerror(n): n for n in _DISK}, "] . unexpected pos ": errno.ENOSPC}
        number = next((n for said, n in words.items() if said in str(cause)), None)
    if number is None:
        return None
    named = cause.filename if isinstance(cause, OSError) and cause.filename else folder
    # The file may be one that was to be read, such as the data: the system does not say which.
    done = "read or written" if number in (errno.EACCES, errno.EPERM) else "written"
    return StoreError(
        f"{named} cannot be {done} ({os.strerror(number)}): {_DISK[number]}, then run the same "
        f"command again. It goes on from the last checkpoint in {folder}."
    )
