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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, final

from gfcr import registry
from gfcr.certificate.record import (
    VERSIONED,
    Certificate,
    Circumstances,
    certificate_for,
    content_of,
    covered,
)
from gfcr.errors import ConfigError
from gfcr.speculation.base import Drafter
from gfcr.tracking import ended
from gfcr.tracking.folder import CERTIFICATE, RunFolder
from gfcr.types import Sampling
from gfcr.values.disk import write_atomic

Word: TypeAlias = Literal["none", "lossless", "biased", "inconclusive", "uncertified"]

TAG: Final = "gfcr.certificate"
HASH: Final = "gfcr.certificate_hash"
_VERSION: Final = "gfcr.version."
_DEVICE: Final = "gfcr.device"
_SOURCES: Final = "gfcr.sources"
_MAX_DRAFT: Final = "gfcr.max_draft"


@final
@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a run's speculation stands."""

    word: Word
    under: Circumstances | None = None
    """None for runs that do not speculate."""
    certificate: Certificate | None = None
    max_draft: int = 0
    """Most tokens that the run's drafter proposes at once."""

    @property
    def tags(self) -> dict[str, str]:
        """Returns the run's tags: the word, the certificate's hash, and what it holds under."""
        if self.under is None:
            return {TAG: self.word}
        return {
            TAG: self.word,
            HASH: self.certificate.hash if self.certificate else "",
            _DEVICE: self.under.device,
            _SOURCES: self.under.sources,
            _MAX_DRAFT: str(self.max_draft),
            **{f"{_VERSION}{name}": v for name, v in self.under.versions.items()},
        }

    def keep(self, folder: Path) -> None:
        """Puts the certificate into a run folder."""
        if self.certificate is not None:
            text = json.dumps(content_of(self.certificate), indent=1)
            write_atomic(folder / CERTIFICATE, text + "\n")


def standing(
    spec: Mapping[str, Any], *, folder: Path | None = None, under: Circumstances | None = None
) -> Standing:
    """Returns how the speculation of a run stands.

    Args:
        spec: of the run: its `engine`, its `strategy` with its `drafter`, and its `sampling`.
        folder: of certificates; None is `record.default_folder`.
        under: versions and device of the run; None is those of this process.
    """
    drafting = spec["strategy"].get("drafter")
    if not drafting:
        return Standing(word="none")
    under = under or Circumstances.here(spec["engine"], drafting)
    sampling = Sampling(**spec["sampling"])
    drafter: Drafter = registry.build("drafter", drafting)
    held = None
    # Certificates are for temperatures one by one, and a run that is heated samples at any.
    if not _is_heated(spec["strategy"]):
        held = certificate_for(
            spec["engine"],
            drafting,
            sampling=sampling,
            model=spec["model"],
            max_draft=drafter.max_draft,
            folder=folder,
            under=under,
        )
    word: Word = "uncertified"
    if held and (verdict := covered(held, sampling=sampling, max_draft=drafter.max_draft)):
        word = verdict.value if all(cell.exact for cell in held.cells) else "biased"
    return Standing(word=word, under=under, certificate=held, max_draft=drafter.max_draft)


def _is_heated(strategy: Mapping[str, Any]) -> bool:
    """Returns whether a part has rollouts sampled at another temperature than the run's."""
    controls = [("control", each) for each in strategy["controls"].values()]
    parts = [("generate", strategy["generate"]), *controls]
    return any(registry.find(kind, str(each["name"])).heats for kind, each in parts)


def circumstances(tags: Mapping[str, str]) -> Circumstances | None:
    """Returns what the run was made under, by its tags; None for one that does not speculate."""
    if _DEVICE not in tags or _SOURCES not in tags:
        return None
    named = {name.removeprefix(_VERSION): value for name, value in tags.items()}
    versions = {name: value for name, value in named.items() if name in VERSIONED}
    return Circumstances(versions=versions, device=tags[_DEVICE], sources=tags[_SOURCES])


def recertify(run: RunFolder, *, folder: Path | None = None) -> Word:
    """Brings a run folder up to date with the certificates there are now.

    An audit may follow a run: it speaks for it when versions and device were the same. The
    digest of its result is taken again then; one that has not ended is left as it is.

    Raises:
        CheckpointError: the folder is not as its run left it.
    """
    ended.check(run)
    card, result, status = run.card(), run.result(), run.status
    under = circumstances(card.tags)
    if under is None:
        return "none"
    try:
        now, own = (standing(card.spec, folder=f, under=under) for f in (folder, run.path))
    except ConfigError:  # code of its own lies elsewhere, and its word is what was found there
        return cast(Word, card.tags[TAG])
    # A folder without an audit, or with one too short, unsays nothing of what the run itself keeps.
    if own.certificate is not None and now.word in ("uncertified", "inconclusive"):
        now = own
    tags = {**card.tags, **now.tags}
    if result is None or run.result_digest is None or tags == card.tags:
        return now.word
    if status is None or status == "running":
        return now.word
    run.create(replace(card, tags=tags))
    now.keep(run.path)
    ended.end(run, status=status, result={**result, "certificate": now.word})
    return now.word
