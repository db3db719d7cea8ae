"""How a run folder is closed, and vouched for before anything is added to it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from gfcr.errors import CheckpointError
from gfcr.tracking.folder import RECORD, RunFolder, write_atomic
from gfcr.tracking.folder_store import read_folder
from gfcr.tracking.seal import UNSEALED, seal_of

Ended: TypeAlias = Literal["paused", "finished", "failed", "stopped"]


def end(folder: RunFolder, *, status: Ended, result: Mapping[str, object]) -> None:
    """Writes how a run ended: `result.json`, its seal `record.json`, and at last `status.json`.

    Killed in between, the run is still `running`, and what was written is written again.
    """
    folder.write_result(result)
    seal = seal_of(replace(read_folder(folder), status=status))
    write_atomic(folder.path / RECORD, json.dumps(seal, indent=1, sort_keys=True) + "\n")
    folder.set_status(status, record=seal["digest"])


def check(folder: RunFolder) -> None:
    """Vouches that a folder is as its run left it, before anything is added to its record.

    A run that goes on, or was made before there were seals, has nothing to contradict.

    Raises:
        CheckpointError: something was edited after the run ended.
    """
    found = read_folder(folder).damage if folder.exists() else ""
    if found not in ("", UNSEALED):
        raise CheckpointError(
            f"{folder.path} is not as its run left it: {found}. Undo the edit, or run it again "
            "with --fresh."
        )
