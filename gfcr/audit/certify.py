"""What a run may say of its speculation: the word on the leaderboard, and the certificate for it.

The word is the tag `gfcr.certificate` of a run:

none          it does not speculate
lossless      a certificate holds for its engine, drafter, sampling, versions and device
biased        as before, and the audit found a bias, or the drafter itself says that it has one
inconclusive  as before, and the audit could not tell
uncertified   there is no such certificate
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

from gfcr import registry
from gfcr.audit.certificate import VERSIONED, Certificate, Circumstances, certificate_for, covered
from gfcr.speculation.base import Drafter
from gfcr.tracking import sealing
from gfcr.tracking.folder import RunFolder, write_atomic
from gfcr.types import Sampling

Word: TypeAlias = Literal["none", "lossless", "biased", "inconclusive", "uncertified"]

TAG: Final = "gfcr.certificate"
HASH: Final = "gfcr.certificate_hash"
FILE: Final = "certificate.json"
"""In the run folder: the certificate that the word rests on."""
_VERSION: Final = "gfcr.version."
_DEVICE: Final = "gfcr.device"


@final
@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a run's speculation stands."""

    word: Word
    under: Circumstances | None = None
    """None for runs that do not speculate."""
    certificate: Certificate | None = None

    @property
    def tags(self) -> dict[str, str]:
        """Of the run: the word, the certificate's hash, and what it holds under."""
        if self.under is None:
            return {TAG: self.word}
        versions = {f"{_VERSION}{name}": v for name, v in self.under.versions.items()}
        named = self.certificate.hash if self.certificate else ""
        return {TAG: self.word, HASH: named, _DEVICE: self.under.device, **versions}

    def keep(self, folder: Path) -> None:
        """Puts the certificate into a run folder."""
        if self.certificate is not None:
            content = {"hash": self.certificate.hash, **asdict(self.certificate)}
            write_atomic(folder / FILE, json.dumps(content, indent=1) + "\n")


def standing(
    spec: Mapping[str, Any], *, folder: Path | None = None, under: Circumstances | None = None
) -> Standing:
    """How the speculation of a run stands.

    Args:
        spec: of the run: its `engine`, its `strategy` with its `drafter`, and its `sampling`.
        folder: of certificates; None is `certificate.default_folder`.
        under: versions and device of the run; None is those of this process.
    """
    drafting = spec["strategy"].get("drafter")
    if not drafting:
        return Standing(word="none")
    under = under or Circumstances.here()
    sampling = Sampling(**spec["sampling"])
    drafter: Drafter = registry.build("drafter", drafting)
    held = certificate_for(
        spec["engine"],
        drafting,
        sampling=sampling,
        max_draft=drafter.max_draft,
        folder=folder,
        under=under,
    )
    if held is None:
        return Standing(word="uncertified", under=under)
    verdict = covered(held, sampling=sampling, max_draft=drafter.max_draft)
    word: Word = verdict.value if verdict and drafter.exact else "biased"
    return Standing(word=word, under=under, certificate=held)


def recertify(run: RunFolder, *, folder: Path | None = None) -> Word:
    """Brings a run folder up to date with the certificates there are now.

    An audit may follow a run: it speaks for it when versions and device were the same. The run is
    sealed again then; one that has not ended, or has no seal, is left as it is.

    Raises:
        CheckpointError: the folder is not as its run left it.
    """
    sealing.check(run)
    card, result, status = run.card(), run.result(), run.status
    device = card.tags.get(_DEVICE)
    if device is None:
        return "none"
    versions = {
        name.removeprefix(_VERSION): value
        for name, value in card.tags.items()
        if name.removeprefix(_VERSION) in VERSIONED
    }
    under = Circumstances(versions=versions, device=device)
    now = standing(card.spec, folder=folder, under=under)
    tags = {**card.tags, **now.tags}
    if result is None or run.sealed_as is None or tags == card.tags:
        return now.word
    if status is None or status == "running":
        return now.word
    run.create(replace(card, tags=tags))
    now.keep(run.path)
    sealing.end(run, status=status, result={**result, "certificate": now.word})
    return now.word
