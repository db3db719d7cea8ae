"""MLflow as a mirror of run folders, and as the source that the leaderboard reads.

Runs are nested study -> arm -> seed. Every record is in the run folder first, so a store that is
down costs nothing but the mirror, and `Mlflow.upload` fills it later.
"""

import shlex
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, ClassVar, Literal, final

from gfcr.errors import CheckpointError, GfcrError
from gfcr.tracking.base import RunCard, Tracker
from gfcr.tracking.folder import MetricLine, RunFolder
from gfcr.tracking.mlflow_client import cause, full
from gfcr.tracking.mlflow_mirror import Mirror
from gfcr.values.ranges import File, Word

if TYPE_CHECKING:
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor


@final
@dataclass(kw_only=True)
class Mlflow(Tracker):
    """Mirrors each run to MLflow: a SQLite file in this folder by default, or a tracking server.

    The run folder is the record, and the store its mirror: where a kill or a resume leaves points
    that the folder does not hold, the run is made again from the folder (MLflow cannot take a point
    back; it keeps the earlier one among the deleted runs). While a run goes on MLflow samples the
    machine, unless its variable MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is false.
    """

    libraries: ClassVar[tuple[str, ...]] = (
        "mlflow.tracking",
        "mlflow.store.tracking.sqlalchemy_store",
    )
    uri: File = "sqlite:///mlflow.db"
    """Any MLflow tracking URI."""
    experiment: Word | None = None
    """The MLflow experiment; None takes the study's name."""
    artifacts: Literal["all", "results"] = "all"
    """`all`, or `results`, which leaves the rollout files in the run folder only."""

    def __post_init__(self) -> None:
        self._mirror: Mirror | None = None
        self._folder: Path | None = None
        self._monitor: SystemMetricsMonitor | None = None

    def start(self, card: RunCard, *, folder: Path) -> None:
        """Opens the run in the store and brings it up to date with the folder's metrics."""
        self._folder = folder
        with self._told():
            self._mirror = Mirror.open(self.uri, folder=folder, experiment=self.experiment)
            self._mirror.reopen()
            self._monitor = self._monitor or _monitor(self.uri, run_id=self._mirror.run_id)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._mirror is not None:
            with self._told():
                self._mirror.log([MetricLine(step=step, metrics=metrics, time=time())])

    def finish(self, *, status: str, result: Mapping[str, object]) -> None:
        """Closes the run and uploads artifacts; after an outage, fills the gap first."""
        if self._folder is None:
            return
        # MLflow's thread ends first, as it would go on sampling for a run that is closed.
        if self._monitor is not None:
            self._monitor.finish()
            self._monitor = None
        # After an outage the user has already been told how to upload.
        lost = self._mirror is None
        with suppress(Exception) if lost else self._told():
            self._upload(self._folder, status=status, result=result)
            if lost:
                print(f"gfcr: MLflow at {self.uri} has the whole run now.", file=sys.stderr)

    def upload(self, folder: Path) -> str:
        """Brings the store up to date with a run folder; may be repeated without harm.

        Returns:
            MLflow's id of the run.

        Raises:
            CheckpointError: the folder is damaged (says which file, and what to do).
            GfcrError: the store cannot be reached (says where and what to do).
        """
        run = RunFolder(folder)
        run.card()
        try:
            return self._upload(folder, status=run.status or "running", result=run.result())
        except CheckpointError:
            raise
        except Exception as error:
            raise GfcrError(
                f"{folder} could not be uploaded to tracking.uri={self.uri} ({cause(error)}). "
                "Then upload it again."
            ) from error

    def _upload(self, folder: Path, *, status: str, result: Mapping[str, object] | None) -> str:
        mirror = Mirror.open(self.uri, folder=folder, experiment=self.experiment)
        mirror.log_files(rollouts=self.artifacts == "all")
        mirror.close(status=status, result=result)
        return mirror.run_id

    @contextmanager
    def _told(self) -> Generator[None]:
        """Gives the mirror up where the store fails, and says so."""
        try:
            yield
        except Exception as error:
            self._mirror = None
            upload = shlex.join(["gfcr", "upload", "--uri", self.uri, str(self._folder)])
            print(
                f"gfcr: MLflow at {self.uri} is not taking records ({cause(error)}). Everything "
                f"is kept in {self._folder}; where the run's end does not bring that to the store, "
                f"`{upload}` does.",
                file=sys.stderr,
            )


def _monitor(uri: str, *, run_id: str) -> "SystemMetricsMonitor | None":
    """Starts MLflow's thread that samples processor, memory, disk, network and GPUs for a run.

    MLflow decides how often (MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL, 10 s by default), and
    whether at all: None where MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is false.
    """
    from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING as ENABLED
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    if ENABLED.is_set() and not ENABLED.get():
        return None
    found = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=full(uri))
    found.start()
    return found
