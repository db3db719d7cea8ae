"""The run folder: everything a run leaves behind, on plain files, before any tracker sees it.

run.json          who the run is (RunCard), written before anything is generated
metrics.jsonl     one line per update: {"step": 3, "metrics": {...}, "time": 1700000000.0}
status.json       how it stands (`Status`)
result.json       the summary, written once at the end
certificate.json  of the drafter, where one holds (`gfcr.audit.certify`)
rollouts/         one Parquet file per update (`gfcr.tracking.rollouts`)
"""

import json
import os
import time as clock
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, final
from uuid import uuid4

from gfcr.errors import CheckpointError
from gfcr.tracking.base import RunCard

Status: TypeAlias = Literal["running", "paused", "finished", "failed", "stopped"]
"""Paused: continues when it is run again. Stopped: a study's stopping rule gave it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLine:
    """The metrics of one update."""

    step: int
    metrics: Mapping[str, float]
    time: float
    """Seconds since the epoch."""


@final
class RunFolder:
    """Reads and writes one run folder. Every whole-file write is atomic.

    Args:
        path: the folder; made by `create`.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def rollouts(self) -> Path:
        """Folder of the rollout files."""
        return self.path / "rollouts"

    def create(self, card: RunCard) -> None:
        """Writes `run.json`, or reopens the folder when it already holds this run.

        Raises:
            CheckpointError: the folder holds another run.
        """
        if (self.path / "run.json").exists():
            held = self.card().run_id
            if held != card.run_id:
                raise CheckpointError(
                    f"{self.path} holds run {held}, not {card.run_id}: the experiment's spec or "
                    f"seed has changed. Give another output folder, or move this one away."
                )
        if not (self.path / "attempt").exists():
            write_atomic(self.path / "attempt", uuid4().hex + "\n")
        write_atomic(self.path / "run.json", _dump(asdict(card)))

    @property
    def attempt(self) -> str:
        """Tells this folder from others of the same run; kept when the run is resumed."""
        return (self.path / "attempt").read_text("utf-8").strip()

    def card(self) -> RunCard:
        """Returns who the run is.

        Raises:
            CheckpointError: `run.json` is missing: the folder is not a run.
        """
        file = self.path / "run.json"
        if not file.exists():
            raise CheckpointError(
                f"{self.path} is not a run folder: run.json is missing. "
                f"Give a folder that `gfcr run` made."
            )
        return RunCard(**json.loads(file.read_text("utf-8")))

    def append(self, step: int, *, metrics: Mapping[str, float], time: float | None = None) -> None:
        """Appends one line to `metrics.jsonl` and flushes it to the operating system."""
        line = {"step": step, "metrics": dict(metrics), "time": time or clock.time()}
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def metrics(self) -> Iterator[MetricLine]:
        """Yields the lines of `metrics.jsonl`; a last line cut by a kill is left out."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield MetricLine(**json.loads(line))

    def truncate(self, step: int) -> None:
        """Forgets updates `step` and later, which a resumed run is about to make again.

        Updates count from 1 in the metrics; the rollouts of update 1 are `update-000000`.
        """
        kept = [asdict(line) for line in self.metrics() if line.step < step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        if (self.path / "metrics.jsonl").exists():
            write_atomic(self.path / "metrics.jsonl", text)
        for file in self.rollouts.glob("update-*.parquet"):
            if int(file.stem.removeprefix("update-")) >= step - 1:
                file.unlink()

    @property
    def status(self) -> Status | None:
        """How the run stands; None before the first `set_status`."""
        file = self.path / "status.json"
        return json.loads(file.read_text("utf-8"))["status"] if file.exists() else None

    def set_status(self, status: Status) -> None:
        """Writes `status.json`."""
        write_atomic(self.path / "status.json", _dump({"status": status}))

    def result(self) -> dict[str, Any] | None:
        """Returns `result.json`, or None when the run has not ended."""
        file = self.path / "result.json"
        return json.loads(file.read_text("utf-8")) if file.exists() else None

    def write_result(self, result: Mapping[str, object]) -> None:
        """Writes `result.json`."""
        write_atomic(self.path / "result.json", _dump(result))


def write_atomic(path: Path, text: str) -> None:
    """Writes `text` so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=list) + "\n"
