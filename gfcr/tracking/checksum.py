"""The digest of a run's result, which is kept beside its status.

It is a checksum against mistakes, such as a result that was edited by hand or copied from another
run: readers of the record compare the two.
"""

from typing import Final

from gfcr.tracking.names import digest
from gfcr.tracking.records import RunRecord

TAG: Final = "gfcr.result"
"""The tag that holds the digest, in a store and in the records read from it."""


def contradiction(run: RunRecord) -> str:
    """Returns how a result differs from the digest that the run ended with; empty if it does not.

    A run that has not ended has no digest, so nothing can differ from it.
    """
    if TAG not in run.tags or run.status == "running":
        return ""
    if run.result is None:
        return "result.json is missing"
    same = digest_of(run) == run.tags[TAG]
    return "" if same else "result.json was changed after the run ended"


def digest_of(run: RunRecord) -> str:
    """Returns the digest of a run's result, status and identity."""
    return digest([run.run_id, run.study, run.arm, run.seed, run.status, run.result])
