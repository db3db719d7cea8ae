"""The seal of a run: a digest of each thing its record holds, and of all of them together.

It is made once, when a run ends, of what the run folder then holds: who the run is, how it ended,
its tags, its spec, its whole result, every point of every metric and its certificate. A store keeps
it in two places (`record.json`, and its digest beside the status), so that whoever edits, adds or
removes any one thing afterwards is contradicted by it, by name. It is no signature: whoever
rewrites everything consistently, the seal too, is found only by running the run again.
"""

from collections.abc import Iterator, Mapping
from math import isnan
from sys import float_info
from typing import Any, Final

from gfcr.tracking.folder import RECORD
from gfcr.tracking.names import digest
from gfcr.tracking.records import Curve, RunRecord
from gfcr.values.plain import is_mapping

TAG: Final = "gfcr.record"
"""Holds the seal's digest, in a store and in the records read from it."""
UNSEALED: Final = (
    "its record is not sealed: an earlier version of gfcr made it, or the seal was removed; run it "
    "again with --fresh"
)
_FORMAT: Final = 1
_NAMED: Final = 3
"""Contradictions told at once."""
_FILES: Final = {
    "spec": "spec.yaml",
    "result": "result.json",
    "certificate": "certificate.json",
}
"""Sections that are files, by the field of the record that holds them."""


def seal_of(record: RunRecord) -> dict[str, Any]:
    """Returns what `record.json` holds of a record with all of its metrics."""
    return _with({name: digest(value) for name, value in _sections(record)})


def _with(sections: Mapping[str, str]) -> dict[str, Any]:
    """Returns the seal over digests by section."""
    return {"format": _FORMAT, "digest": digest(dict(sections)), "sections": dict(sections)}


def contradiction(record: RunRecord) -> str | None:
    """Returns what of an ended run differs from its seal, by name; None when nothing does.

    A run that has not ended has none. Metrics that were not asked for when the record was read are
    not compared.
    """
    if record.status == "running":
        return None
    seal, mirrored = record.seal, record.tags.get(TAG)
    if seal is None:
        return UNSEALED if mirrored is None else f"{RECORD} is missing, its digest is in {TAG}"
    sections = seal.get("sections")
    if not is_mapping(sections) or _with(sections) != seal:
        return f"{RECORD} was changed after the run ended"
    if mirrored != seal["digest"]:
        return f"{TAG} is {mirrored}, the digest in {RECORD} is {seal['digest']}"
    found = {name: digest(value) for name, value in _sections(record)}
    sealed = {
        name: held
        for name, held in sections.items()
        if not name.startswith("metrics/") or name.removeprefix("metrics/") in record.series
    }
    names = sorted(n for n in {*found, *sealed} if found.get(n) != sealed.get(n))
    told = list(dict.fromkeys(_told(n, found=found, sealed=sealed) for n in names))
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    return "; ".join(told[:_NAMED]) + more if told else None


def _sections(record: RunRecord) -> Iterator[tuple[str, Any]]:
    for name in ("run_id", "study", "arm", "seed", "status"):
        yield f"run/{name}", getattr(record, name)
    for name, value in record.tags.items():
        if name != TAG:
            yield f"tags/{name}", value
    for place in _FILES:
        held: Mapping[str, Any] | None = getattr(record, place)
        for name, value in (held or {}).items():
            yield f"{place}/{name}", value
    for name, curve in record.series.items():
        if curve:
            yield f"metrics/{name}", _points(curve)


def _points(curve: Curve) -> list[tuple[int, float | str]]:
    """One value a step, in the form in which every store gives it back."""
    return [(step, _number(value)) for step, value in sorted(dict(curve).items())]


def _number(value: float) -> float | str:
    if isnan(value):
        return "nan"
    # Stores keep infinity as the largest number, and no negative zero.
    return max(-float_info.max, min(float_info.max, float(value))) + 0.0


def _told(name: str, *, found: Mapping[str, str], sealed: Mapping[str, str]) -> str:
    place, _, rest = name.partition("/")
    file = _FILES.get(place, "")
    if file and not any(n.startswith(f"{place}/") for n in found):
        return f"{file} is missing"
    what = f"{file}: {rest}" if file else f"{place.rstrip('s')} {rest}".removeprefix("run ")
    if name not in found:
        return f"{what} is missing"
    return f"{what} was {'changed' if name in sealed else 'added'} after the run ended"
