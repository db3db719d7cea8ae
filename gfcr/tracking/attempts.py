"""Attempts at one run: what those before the one in a folder or a store had shown.

A run that is started over could be started over until it is lucky: with `--fresh`, in a folder that
was deleted, or in another folder with the same store. What the earlier attempts came to goes with
the later ones, into their sealed results; a store knows those that it replaced by itself.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from gfcr.errors import CheckpointError
from gfcr.tracking.folder import MetricLine, RunFolder, write_atomic
from gfcr.tracking.names import HELDOUT, digest

_FILE = "attempts.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One of several attempts at a run. Ids sort by the time at which attempts began."""

    id: str
    status: str
    """As a run's; `running` where it was killed."""
    updates: int
    score: float | None
    """Latest held-out score of a policy that had been trained; None where none was measured."""
    code: str
    """See `code_of`; empty where nobody can tell."""

    @property
    def seen(self) -> bool:
        """Whether a later attempt may have been made because of what this one showed.

        It has a score, or it was left in the course of training and had not failed.
        """
        return self.score is not None or (self.updates > 0 and self.status != "failed")


def code_of(tags: Mapping[str, str]) -> str:
    """Returns what tells the code that a run was made with from other code, or the commit."""
    made = {n: v for n, v in tags.items() if n == "gfcr.code" or n.startswith("gfcr.code.")}
    return digest(made)[:12] if made else tags.get("gfcr.commit", "")


def told(folder: RunFolder) -> dict[str, Any]:
    """Returns what a result says of its attempt, those before it, and what its study asked for."""
    earlier = [asdict(attempt) for attempt in _kept(folder)]
    return {
        "attempt": folder.attempt,
        "attempts": earlier,
        "roster": dict(folder.card().roster),
    }


def before(own: str, *, known: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Returns the attempts that began before `own`, each once, in their order."""
    found = {attempt.id: attempt for attempt in known if attempt.id < own}
    return tuple(found[name] for name in sorted(found))


def of_result(result: Mapping[str, Any] | None) -> tuple[Attempt, ...]:
    """Returns the earlier attempts that a result tells of; none where it is damaged."""
    try:
        return tuple(Attempt(**held) for held in (result or {}).get("attempts", ()))
    except TypeError:
        return ()


def keep(folder: RunFolder, *, known: Iterable[Attempt] = ()) -> None:
    """Writes down the attempts before this folder's: those known, and those set aside beside it."""
    found = [*_kept(folder), *known]
    for path in folder.path.parent.glob(f"{folder.path.name}.old-*"):
        found += [*_kept(RunFolder(path)), _attempt(RunFolder(path))]
    earlier = before(folder.attempt, known=found)
    if earlier != _kept(folder):
        text = json.dumps([asdict(attempt) for attempt in earlier], indent=1)
        write_atomic(folder.path / _FILE, text + "\n")


def _kept(folder: RunFolder) -> tuple[Attempt, ...]:
    try:
        held = json.loads((folder.path / _FILE).read_text("utf-8"))
        return tuple(Attempt(**one) for one in held)
    except (OSError, ValueError, TypeError):
        return ()


def _attempt(folder: RunFolder) -> Attempt:
    """What a folder's own attempt came to, as far as a folder that may be damaged tells."""
    lines: list[MetricLine] = []
    with suppress(CheckpointError):  # what is whole
        for line in folder.metrics():
            lines.append(line)
    # Updates are numbered from 1; what stands at 0 was measured before training.
    scores = [line.metrics[HELDOUT] for line in lines if line.step and HELDOUT in line.metrics]
    try:
        result, status = folder.result() or {}, folder.status or "running"
    except CheckpointError:
        result, status = {}, "running"
    after: dict[str, Any] = result.get("heldout", {}).get("after", {})
    try:
        code = code_of(folder.card().tags)
    except CheckpointError:
        code = ""
    return Attempt(
        id=_id(folder),
        status=status,
        updates=max([result.get("updates", 0), *(line.step for line in lines)]),
        score=after.get("accuracy", scores[-1] if scores else None),
        code=code,
    )


def _id(folder: RunFolder) -> str:
    """The folder's attempt; where nobody can tell any more, one before all others."""
    try:
        name = folder.attempt
    except (OSError, CheckpointError):
        name = ""
    return name if name[:1].isalnum() else f"0-{folder.path.name}"
