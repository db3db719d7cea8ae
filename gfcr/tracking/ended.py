"""Ends a run's folder: its result is written, with the digest of it beside the status."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from gfcr.errors import CheckpointError
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.folder_store import read_folder
from gfcr.tracking.records import digest_of

Ended: TypeAlias = Literal["paused", "finished", "failed", "stopped"]


def end(folder: RunFolder, *, status: Ended, result: Mapping[str, object]) -> None:
    """Writes a run's end: `result.json`, then `status.json` with the digest of the result.

    A run that is killed in between is still `running`, and its result is written again.
    """
    folder.write_result(result)
    # The result is read back, because the digest is of values as JSON gives them back.
    written = replace(read_folder(folder), status=status, result=folder.result())
    folder.set_status(status, result=digest_of(written))


def check(folder: RunFolder) -> None:
    """Checks that a folder's result is the one that its run wrote, before it is written again.

    Raises:
        CheckpointError: it was changed, or is missing.
    """
    if folder.exists() and (found := read_folder(folder).damage):
        raise CheckpointError(
            f"{folder.path} is not as its run left it: {found}. Undo the edit, or run it again "
            "with --fresh."
        )
