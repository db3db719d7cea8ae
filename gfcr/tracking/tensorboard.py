"""TensorBoard event files in run folders."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, ClassVar, Final, final

from gfcr.code import optional
from gfcr.tracking.base import RunCard, Tracker
from gfcr.tracking.folder import RunFolder

_WRITER: Final = "tensorboard.summary.writer.event_file_writer"
_EVENTS: Final = "tensorboard.compat.proto.event_pb2"
_SUFFIX: Final = ".gfcr"
"""Suffix of the names of our event files, so that no other writer's file is emptied."""


@final
@dataclass(kw_only=True)
class Tensorboard(Tracker):
    """Writes each run's metrics as TensorBoard scalars into its run folder.

    `tensorboard --logdir runs` shows them as study/arm/seed. The file is written again from the
    run folder when a run goes on, so that no point is there twice. The leaderboard reads MLflow:
    `gfcr upload runs/` brings the same runs there.
    """

    libraries: ClassVar[tuple[str, ...]] = (_WRITER,)

    def __post_init__(self) -> None:
        self._writer: Any = None

    def start(self, card: RunCard, *, folder: Path) -> None:
        """Writes the metrics that the folder holds so far.

        Raises:
            ConfigError: tensorboard is not installed.
        """
        try:
            self._writer = _written(RunFolder(folder))
        except OSError as error:
            print(f"gfcr: no TensorBoard file in {folder}: {error}", file=sys.stderr)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._writer is not None:
            _add(self._writer, step, metrics=metrics, at=time())
            # A TensorBoard beside the run reads the file while it grows.
            self._writer.flush()

    def finish(self, *, status: str, result: Mapping[str, object]) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _written(folder: RunFolder) -> Any:
    """Writes a run's event file from its folder, in place of an earlier one."""
    event_file_writer = optional.load(_WRITER)
    for earlier in folder.path.glob(f"events.out.tfevents.*{_SUFFIX}"):
        earlier.write_bytes(b"")  # a TensorBoard that has it open cannot do without the file
    writer = event_file_writer.EventFileWriter(str(folder.path), filename_suffix=_SUFFIX)
    events = optional.load(_EVENTS)
    # A TensorBoard that has read the earlier file forgets its points.
    begun = events.SessionLog(status=events.SessionLog.START)
    writer.add_event(events.Event(wall_time=time(), step=0, session_log=begun))
    for line in folder.metrics():
        _add(writer, line.step, metrics=line.metrics, at=line.time)
    writer.flush()
    return writer


def _add(writer: Any, step: int, *, metrics: Mapping[str, float], at: float) -> None:
    values = [{"tag": name, "simple_value": value} for name, value in metrics.items()]
    event = optional.load(_EVENTS).Event
    writer.add_event(event(wall_time=at, step=step, summary={"value": values}))
