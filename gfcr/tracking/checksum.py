"""Writes a run's result at its end, and keeps a digest of it beside the status.

The digest is a checksum against mistakes, such as a result that was edited by hand or copied from
another run: readers of the record compare the two.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from gfcr.errors import CheckpointError
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import digest
from gfcr.tracking.records import RunRecord

Ended: TypeAlias = Literal["paused", "finished", "failed", "stopped"]
Result: TypeAlias = Mapping[str, Any] | None

TAG: Final = "gfcr.result"
"""The tag that holds the digest, in a store and in the records read from it."""


def end(folder: RunFolder, *, status: Ended, result: Mapping[str, object]) -> None:
    """Writes a run's end: `result.json`, then `status.json` with the digest of the result.

    A run that is killed in between is still `running`, and its result is written again.
    """
    folder.write_result(result)
    # The result is read back, because the digest is of values as JSON gives them back.
    made = _digest(folder.card(), status=status, result=folder.result())
    folder.set_status(status, result=made)


def contradiction(
    run: RunCard | RunRecord, *, status: str, result: Result, recorded: str | None
) -> str | None:
    """Returns how a result differs from the digest that the run ended with; None if it does not.

    A run that has not ended has no digest, so nothing can differ from it.
    """
    if recorded is None or status == "running":
        return None
    if result is None:
        return "result.json is missing"
    same = _digest(run, status=status, result=result) == recorded
    return None if same else "result.json was changed after the run ended"


def check(folder: RunFolder) -> None:
    """Checks that a folder's result is the one that its run wrote, before it is written again.

    Raises:
        CheckpointError: it was changed, or is missing.
    """
    if not folder.exists():
        return
    status, result = folder.status or "running", folder.result()
    found = contradiction(
        folder.card(), status=status, result=result, recorded=folder.result_digest
    )
    if found:
        raise CheckpointError(
            f"{folder.path} is not as its run left it: {found}. Undo the edit, or run it again "
            "with --fresh."
        )


def _digest(run: RunCard | RunRecord, *, status: str, result: Result) -> str:
    return digest([run.run_id, run.study, run.arm, run.seed, status, result])
