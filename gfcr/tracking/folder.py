"""The run folder: everything a run leaves behind, on plain files, before any tracker sees it.

run.json          who the run is (RunCard), written before anything is generated
metrics.jsonl     one line per update: {"step": 3, "metrics": {...}, "time": 1700000000.0}
status.json       how it stands (`Status`), the process that runs it, and a digest of the result
                  once it has ended
result.json       the summary, written once at the end (`gfcr.tracking.ended`)
attempt           tells this folder from others of the same run, see `RunFolder.attempt`
certificate.json  of the drafter, where one holds (`gfcr.certificate.certify`)
rollouts/         one Parquet file per update, and one of its correction (`gfcr.tracking.parquet`)
"""

import hashlib
import json
import os
import re
import time as clock
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args
from uuid import uuid4

from gfcr.errors import CheckpointError, damaged, near_file
from gfcr.tracking import parquet
from gfcr.tracking.base import RunCard
from gfcr.tracking.lock import whose
from gfcr.tracking.rollouts import write_rollouts
from gfcr.types import RolloutBatch
from gfcr.values.disk import flush, write_atomic

Status: TypeAlias = Literal["running", "paused", "finished", "failed", "stopped"]
"""Paused: continues when run again. Stopped: ended early by a study's stopping rule."""

CERTIFICATE = "certificate.json"
_CHANGED = "it is not what the run wrote before its checkpoint"
_PLANNED = ("gfcr.baseline", "gfcr.minimum_effect")
"""Tags that say what the study compares."""
_TEMPORARY = re.compile(r"\.(.+)\.\d+")
"""Names of the temporary files that `replacing` leaves if killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLine:
    """The metrics of one update."""

    step: int
    metrics: Mapping[str, float]
    time: float
    """The time of the record, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a run had recorded at one point, so that a resumed run can go back to it."""

    metrics: int = 0
    """The size of `metrics.jsonl`, in bytes."""
    digest: str = hashlib.sha256().hexdigest()
    """The SHA-256 of those bytes."""
    rollouts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The SHA-256 of the rollout files, by name."""


@final
class RunFolder:
    """Reads and writes one run folder. Every whole-file write is atomic.

    Args:
        path: the folder; made by `create`.
        guard: called before anything is written; raises where the folder is no longer held.
    """

    def __init__(self, path: Path | str, *, guard: Callable[[], None] = lambda: None) -> None:
        self.path, self.guard = Path(path), guard
        self._written: dict[str, str] = {}
        self._unflushed: set[Path] = set()

    @property
    def rollouts(self) -> Path:
        """The folder of the rollout files."""
        return self.path / "rollouts"

    @property
    def updates(self) -> dict[int, Path]:
        """The rollout files by update, in order."""
        return parquet.files(self.rollouts)

    def exists(self) -> bool:
        """Tells whether the folder holds a run."""
        return (self.path / "run.json").exists()

    def create(self, card: RunCard) -> None:
        """Writes `run.json`, or reopens the folder when it already holds this run.

        The study's comparison is no longer changed once a run of it has measured anything.

        Raises:
            CheckpointError: the folder holds another run.
        """
        self.guard()
        if self.exists():
            held = self.card()
            if held.run_id != card.run_id:
                raise CheckpointError(
                    f"{self.path} holds run {held.run_id}, not {card.run_id}: the experiment's "
                    f"spec or seed has changed. Give another output folder, or move this one away."
                )
            if (self.path / "metrics.jsonl").exists():
                planned = {name: held.tags[name] for name in _PLANNED if name in held.tags}
                card = replace(card, roster=held.roster, tags={**card.tags, **planned})
        if not (self.path / "attempt").exists():
            began = f"{clock.time_ns():020d}-{uuid4().hex[:12]}"
            write_atomic(self.path / "attempt", began + "\n")
        write_atomic(self.path / "run.json", _dump(asdict(card)))

    @property
    def attempt(self) -> str:
        """Tells this folder from others of the same run; kept on resume, and sorts by time."""
        try:
            return (self.path / "attempt").read_text("utf-8").strip()
        except ValueError as error:
            raise damaged(self.path / "attempt", why=str(error)) from error

    def whose(self) -> str:
        """Returns which attempt at which run this is, as its checkpoints record it."""
        return f"run {self.card().run_id}, attempt {self.attempt}"

    def card(self) -> RunCard:
        """Returns the card with the run's identity.

        Raises:
            CheckpointError: `run.json` is missing: the folder is not a run.
        """
        file = self.path / "run.json"
        if not file.exists():
            raise CheckpointError(
                f"{self.path} is not a run folder: run.json is missing."
                f"{near_file(self.path)} Give a folder that `gfcr run` made."
            )
        try:
            return RunCard(**_load(file))
        except TypeError as error:
            raise damaged(file, why=str(error)) from error

    def append(self, step: int, *, metrics: Mapping[str, float], time: float | None = None) -> None:
        """Appends one line to `metrics.jsonl` and flushes it to the operating system."""
        self.guard()
        line = {"step": step, "metrics": dict(metrics), "time": time or clock.time()}
        self.path.mkdir(parents=True, exist_ok=True)
        # A kill cuts short the last line at most, which readers leave out.
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def metrics(self) -> Iterator[MetricLine]:
        """Yields the lines of `metrics.jsonl`; a last line cut by a kill is left out."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    found = MetricLine(**json.loads(line))
                except (ValueError, TypeError) as error:
                    raise damaged(file, why=f"line {number}: {error}") from error
                yield found

    def add_rollouts(self, batch: RolloutBatch, *, spell: Callable[[int], str]) -> None:
        """Writes the rollouts of an update; for `spell` see `write_rollouts`."""
        self.guard()
        self._keep(write_rollouts(self.rollouts, batch=batch, spell=spell))

    def add_corrections(self, *, made: parquet.Corrections, update: int) -> None:
        """Writes what a correction made of an update's rollouts."""
        self.guard()
        self._keep(parquet.write_corrections(self.rollouts, made=made, update=update))

    def _keep(self, path: Path) -> None:
        self._written[path.relative_to(self.rollouts).as_posix()] = _sha256(path.read_bytes())
        self._unflushed.add(path)

    def mark(self) -> Mark:
        """Returns a mark of what the folder holds now, once that is on the disk."""
        self.guard()
        held = self._metrics_bytes()
        fresh = {self.path / "metrics.jsonl", *self._unflushed}
        flush(fresh | {path.parent for path in fresh})
        self._unflushed.clear()
        return Mark(metrics=len(held), digest=_sha256(held), rollouts=dict(self._written))

    def back_to(self, mark: Mark) -> None:
        """Removes all that was recorded after `mark`: a resumed run is about to make it again.

        Raises:
            CheckpointError: something recorded before the mark is damaged; names the file.
        """
        self.guard()
        held = self._metrics_bytes()[: mark.metrics]
        if _sha256(held) != mark.digest:
            raise damaged(self.path / "metrics.jsonl", why=_CHANGED)
        for name, digest in mark.rollouts.items():
            file = self.rollouts / name
            if not file.exists() or _sha256(file.read_bytes()) != digest:
                raise damaged(file, why=_CHANGED)
        if (self.path / "metrics.jsonl").exists():
            # All was checked before, so that a damaged record is left as it was found.
            os.truncate(self.path / "metrics.jsonl", mark.metrics)
        self.make_room(updates=0, kept=mark.rollouts)
        self._written = dict(mark.rollouts)

    def make_room(self, *, updates: int, kept: Collection[str]) -> None:
        """Removes temporary files, and rollouts that a resume remakes.

        Args:
            updates: the update from which on rollouts are removed.
            kept: names of files that stay, as a checkpoint holds their batches.
        """
        for file in parquet.every_file(self.rollouts, since=updates):
            if file.relative_to(self.rollouts).as_posix() not in kept:
                file.unlink()
        self.drop_halves()

    def drop_halves(self) -> None:
        """Removes the temporary files of writes that were cut short."""
        for file in self.path.rglob(".*"):
            if _TEMPORARY.fullmatch(file.name):
                file.unlink()

    def _metrics_bytes(self) -> bytes:
        file = self.path / "metrics.jsonl"
        return file.read_bytes() if file.exists() else b""

    @property
    def status(self) -> Status | None:
        """The status of the run; None before the first `set_status`."""
        if (held := self.read("status.json")) is None:
            return None
        if (status := held.get("status")) not in get_args(Status):
            raise damaged(self.path / "status.json", why=f"its status is {status!r}")
        return status

    @property
    def result_digest(self) -> str | None:
        """The digest of the result that the run ended with; None before it has ended."""
        return (self.read("status.json") or {}).get("result")

    def set_status(self, status: Status, *, result: str | None = None) -> None:
        """Writes `status.json`, with the digest of the result where the run has ended."""
        self.guard()
        more = {} if result is None else {"result": result}
        by = {"by": whose()} if status == "running" else {}
        write_atomic(self.path / "status.json", _dump({"status": status, **more, **by}))

    def result(self) -> dict[str, Any] | None:
        """Returns `result.json`, or None when the run has not ended."""
        return self.read("result.json")

    def read(self, name: str) -> dict[str, Any] | None:
        """Returns the contents of the JSON file of this name, or None without one."""
        file = self.path / name
        return _load(file) if file.exists() else None

    def write_result(self, result: Mapping[str, object]) -> None:
        """Writes `result.json`."""
        self.guard()
        write_atomic(self.path / "result.json", _dump(result))


def _load(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise damaged(file, why=str(error)) from error


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, default=list) + "\n"


def _sha256(held: bytes) -> str:
    return hashlib.sha256(held).hexdigest()
