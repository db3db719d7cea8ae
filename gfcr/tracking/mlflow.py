"""MLflow as a mirror of run folders, and as the source that the leaderboard reads.

Runs are nested study -> arm -> seed. Every record is in the run folder first, so a store that is
down costs nothing but the mirror, and `Mlflow.upload` fills it later.
"""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, ClassVar, Literal, final

from gfcr.errors import GfcrError
from gfcr.tracking.base import RunCard, Tracker
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.mlflow_client import is_full, remedy, short
from gfcr.tracking.mlflow_mirror import Mirror
from gfcr.tracking.mlflow_system import monitor
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
        try:
            mirror = self._open(card, folder=RunFolder(folder))
            mirror.reopen()
            mirror.log_lines(RunFolder(folder))
            self._mirror = mirror
            self._monitor = self._monitor or monitor(self.uri, run_id=mirror.run_id)
        except Exception as error:
            self._lose(error)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Mirrors one line of metrics, in one request."""
        if self._mirror is None:
            return
        try:
            self._mirror.log(step, metrics=metrics, at=time())
        except Exception as error:
            self._lose(error)

    def finish(self, *, status: str, result: Mapping[str, object]) -> None:
        """Closes the run and uploads artifacts; after an outage, fills the gap first."""
        if self._folder is None:
            return
        lost = self._mirror is None
        if self._monitor is not None:
            self._monitor.finish()
            self._monitor = None
        try:
            self._upload(RunFolder(self._folder), status=status, result=result)
        except Exception as error:
            # After an outage the user has already been told how to upload.
            if not lost:
                self._lose(error, ended=True)

    def upload(self, folder: Path) -> str:
        """Brings the store up to date with a run folder; may be repeated without harm.

        Returns:
            MLflow's id of the run.

        Raises:
            GfcrError: the store cannot be reached (says where and what to do).
        """
        run = RunFolder(folder)
        run.card()
        try:
            return self._upload(run, status=run.status or "running", result=run.result())
        except Exception as error:
            raise GfcrError(
                f"{folder} could not be uploaded to tracking.uri={self.uri}: {short(error)}. "
                f"{remedy(error)}, then upload again."
            ) from error

    def _open(self, card: RunCard, *, folder: RunFolder) -> Mirror:
        experiment = self.experiment or card.study
        return Mirror.open(self.uri, card=card, experiment=experiment, folder=folder)

    def _upload(
        self, folder: RunFolder, *, status: str, result: Mapping[str, object] | None
    ) -> str:
        mirror = self._open(folder.card(), folder=folder)
        mirror.log_lines(folder)
        mirror.log_files(folder, rollouts=self.artifacts == "all")
        mirror.close(status=status, result=result, digest=folder.result_digest)
        return mirror.run_id

    def _lose(self, error: Exception, *, ended: bool = False) -> None:
        self._mirror = None
        upload = shlex.join(["gfcr", "upload", "--uri", self.uri, str(self._folder)])
        when = "" if ended else "at the end of the run, or "
        room = ", once there is room on the store's disk" if is_full(error) else ""
        print(
            f"gfcr: MLflow at {self.uri} is not taking records ({short(error)}). That does not "
            f"stop the run, and everything is in {self._folder}; it is uploaded {when}by "
            f"`{upload}`{room}.",
            file=sys.stderr,
        )
