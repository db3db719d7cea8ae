"""What is known of the losslessness of an arm's drafter, from the certificates of its runs."""

from collections.abc import Sequence
from typing import TypeAlias

from gfcr.certificate.certify import Word, word_of
from gfcr.tracking.records import RunRecord

Certificate: TypeAlias = Word
"""`none`: does not speculate. `uncertified`: speculates without a certificate that holds for the
drafter, settings and versions it ran with."""

TAG = "gfcr.certificate"
_WORST_FIRST: tuple[Certificate, ...] = (
    "biased",
    "uncertified",
    "inconclusive",
    "lossless",
    "none",
)
NOTES: dict[Certificate, str] = {
    "uncertified": "it speculates without a current losslessness certificate (`gfcr audit`)",
    "inconclusive": "the audit of its drafter could not tell whether it is lossless",
    "biased": "its drafter was audited as biased: it samples from another policy than it trains",
}


def certificate_of(runs: Sequence[RunRecord]) -> Certificate:
    """Returns the worst state among an arm's runs.

    A run that speculates without a certificate that holds for it is `uncertified`.
    """
    return min(map(state_of, runs), key=_WORST_FIRST.index)


def state_of(run: RunRecord) -> Certificate:
    """Says what a run's own certificate says of it."""
    if not _speculates(run) or run.spec is None:
        return "uncertified" if _speculates(run) else "none"
    return word_of(run.spec, tags=run.tags, certificate=run.certificate)


def _speculates(run: RunRecord) -> bool:
    return "strategy.drafter.name" in run.params
