"""Ends a run's folder: its result is written, with the digest of it beside the status."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gfcr.errors import CheckpointError
from gfcr.tracking.checksum import TAG, contradiction, digest_of
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.records import RunRecord

Ended: TypeAlias = Literal["paused", "finished", "failed", "stopped"]


def end(folder: RunFolder, *, status: Ended, result: Mapping[str, object]) -> None:
    """Writes a run's end: `result.json`, then `status.json` with the digest of the result.

    A run that is killed in between is still `running`, and its result is written again.
    """
    folder.write_result(result)
    # The result is read back, because the digest is of values as JSON gives them back.
    folder.set_status(status, result=digest_of(_record(folder, status=status)))


def check(folder: RunFolder) -> None:
    """Checks that a folder's result is the one that its run wrote, before it is written again.

    Raises:
        CheckpointError: it was changed, or is missing.
    """
    if not folder.exists():
        return
    if found := contradiction(_record(folder, status=folder.status or "running")):
        raise CheckpointError(
            f"{folder.path} is not as its run left it: {found}. Undo the edit, or run it again "
            "with --fresh."
        )


def _record(folder: RunFolder, *, status: str) -> RunRecord:
    card, recorded = folder.card(), folder.result_digest
    return RunRecord(
        run_id=card.run_id,
        study=card.study,
        arm=card.arm,
        seed=card.seed,
        status=status,
        tags={} if recorded is None else {TAG: recorded},
        result=folder.result(),
    )
