"""Whether an arm's drafter is lossless, from the certificates of its runs."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, cast

from gfcr.tracking.records import RunRecord

Certificate: TypeAlias = Literal["none", "lossless", "biased", "inconclusive", "uncertified"]
"""`none`: the arm does not speculate. `uncertified`: it speculates, and no certificate holds for
the drafter, settings and versions it ran with."""

_TAG: Final = "gfcr.certificate"
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
    """Returns the worst certificate among an arm's runs.

    A run that speculates without a certificate that holds for it is `uncertified`.
    """
    return min(map(state_of, runs), key=_WORST_FIRST.index)


def state_of(run: RunRecord) -> Certificate:
    """Returns the certificate of a run as its record says, found at its beginning or since."""
    if "strategy.drafter.name" not in run.params:
        return "none"
    said = cast(Certificate, run.tags.get(_TAG))
    return said if said in NOTES or said == "lossless" else "uncertified"
