"""MLflow as a mirror of run folders, and as the only source of the leaderboard.

Runs are nested study -> arm -> seed. Every record is in the run folder first, so a store that is
down costs nothing but the mirror, and `Mlflow.upload` fills it later.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, ClassVar, Literal, final

from gfcr.errors import GfcrError
from gfcr.tracking import attempts
from gfcr.tracking.base import RunCard, Tracker
from gfcr.tracking.folder import CERTIFICATE, RECORD, RunFolder
from gfcr.tracking.mlflow_client import (
    find_experiment,
    find_run,
    list_files,
    open_client,
    short,
    store_lock,
)
from gfcr.tracking.mlflow_store import ATTEMPT, OWN_TAGS, ROSTER, read_attempts
from gfcr.tracking.names import encode_name, fit_param, flatten, spec_hash
from gfcr.tracking.seal import TAG
from gfcr.values.ranges import File, Word

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

_BATCH = 100
"""Params and tags that one request may carry."""
_ENDED = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


@final
@dataclass(kw_only=True)
class Mlflow(Tracker):
    """Mirrors each run to MLflow: a SQLite file beside you by default, or any tracking server.

    The run folder is the record, and the store its mirror: where a kill or a resume leaves points
    that the folder does not hold, the run is made again from the folder (MLflow cannot take a point
    back; it keeps the earlier one among the deleted runs). Those that were another attempt at the
    run are told of in its result.
    """

    libraries: ClassVar[tuple[str, ...]] = (
        "mlflow.tracking",
        "mlflow.store.tracking.sqlalchemy_store",
    )
    uri: File = "sqlite:///mlflow.db"
    """Any MLflow tracking URI."""
    experiment: Word | None = None
    """MLflow experiment; None takes the study's name."""
    artifacts: Literal["all", "results"] = "all"
    """`results` leaves the rollout files in the run folder only."""

    def __post_init__(self) -> None:
        self._mirror: _Mirror | None = None
        self._folder: Path | None = None

    def start(self, card: RunCard, *, folder: Path) -> None:
        """Opens the run in the store and brings it up to date with the folder's metrics."""
        self._folder = folder
        try:
            mirror = self._open(card, folder=RunFolder(folder))
            attempts.keep(RunFolder(folder), known=read_attempts(mirror.client, run_id=card.run_id))
            mirror.reopen()
            mirror.log_lines(RunFolder(folder))
            self._mirror = mirror
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
        try:
            self._upload(RunFolder(self._folder), status=status, result=result)
        except Exception as error:
            # After an outage the user has already been told how to upload.
            if not lost:
                self._lose(error)

    def upload(self, folder: Path) -> str:
        """See `Tracker.upload`: the id is MLflow's."""
        run = RunFolder(folder)
        run.card()
        try:
            return self._upload(run, status=run.status or "running", result=run.result())
        except Exception as error:
            raise GfcrError(
                f"{folder} could not be uploaded to tracking.uri={self.uri}: {short(error)}. "
                f"Start the server or correct the address, then upload again."
            ) from error

    def _open(self, card: RunCard, *, folder: RunFolder) -> "_Mirror":
        experiment = self.experiment or card.study
        return _Mirror.open(self.uri, card=card, experiment=experiment, folder=folder)

    def _upload(
        self, folder: RunFolder, *, status: str, result: Mapping[str, object] | None
    ) -> str:
        mirror = self._open(folder.card(), folder=folder)
        mirror.log_lines(folder)
        mirror.log_files(folder, rollouts=self.artifacts == "all")
        mirror.close(status=status, result=result)
        return mirror.run_id

    def _lose(self, error: Exception) -> None:
        self._mirror = None
        print(
            f"gfcr: MLflow at {self.uri} is not taking records ({short(error)}). The run goes on "
            f"and keeps everything in {self._folder}; they are uploaded at the end of the run, or "
            f"by `gfcr upload {self._folder}`.",
            file=sys.stderr,
        )


@final
@dataclass(kw_only=True)
class _Mirror:
    """One open MLflow run."""

    client: "MlflowClient"
    run_id: str
    seen: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """(name, step) of the points that the store held when the run was opened."""

    @classmethod
    def open(cls, uri: str, *, card: RunCard, experiment: str, folder: RunFolder) -> "_Mirror":
        """Finds or creates the run and its parents, then writes its params and tags.

        One that is of an earlier attempt, or that holds what the folder does not, is replaced;
        MLflow keeps it as deleted.
        """
        attempt = folder.attempt
        with store_lock(uri):
            client = open_client(uri)
            where = find_experiment(client, name=experiment, uri=uri)
            study = find_run(client, where, kind="study", names=(card.study,))
            arm = find_run(client, where, kind="arm", names=(card.study, card.arm), parent=study)
            names = (card.study, card.arm, f"seed {card.seed}", card.run_id)
            run = find_run(client, where, kind="seed", names=names, parent=arm)
            other = run.data.tags.get(ATTEMPT, attempt) != attempt
            seen = _points(client, run)
            if other or not _is_part(seen, of=folder):
                seen = {}
                client.delete_run(run.info.run_id)
                run = find_run(client, where, kind="seed", names=names, parent=arm)
            client.set_tag(run.info.run_id, ATTEMPT, attempt)
            told = json.dumps([card.study, card.arm, card.seed])
            client.set_tag(arm.info.run_id, ROSTER + card.run_id, told)
        mirror = cls(client=client, run_id=run.info.run_id)
        mirror.seen = set(seen)
        mirror.describe(card, held=run.data.tags)
        return mirror

    def describe(self, card: RunCard, *, held: Mapping[str, str]) -> None:
        from mlflow.entities import Param, RunTag

        tags = {
            **card.tags,
            "gfcr.run_id": card.run_id,
            "gfcr.study": card.study,
            "gfcr.arm": card.arm,
            "gfcr.seed": str(card.seed),
            "gfcr.spec_hash": spec_hash(card.spec),
        }
        # A run that goes on is not what it was called before: stopped, say.
        for name in held:
            if name.startswith("gfcr.") and name not in tags and name not in OWN_TAGS:
                self.client.delete_tag(self.run_id, name)
        params = {encode_name(k): fit_param(v) for k, v in flatten(card.spec).items()}
        for part in _chunks(sorted(tags.items())):
            self.client.log_batch(self.run_id, tags=[RunTag(k, v) for k, v in part])
        for part in _chunks(sorted(params.items())):
            self.client.log_batch(self.run_id, params=[Param(k, v) for k, v in part])

    def reopen(self) -> None:
        self.client.set_tag(self.run_id, "gfcr.status", "running")
        self.client.update_run(self.run_id, status="RUNNING")

    def log(self, step: int, *, metrics: Mapping[str, float], at: float) -> None:
        from mlflow.entities import Metric

        named = {encode_name(name): float(value) for name, value in metrics.items()}
        new = [
            Metric(name, value, int(at * 1000), step)
            for name, value in named.items()
            if (name, step) not in self.seen
        ]
        if new:
            self.client.log_batch(self.run_id, metrics=new)

    def log_lines(self, folder: RunFolder) -> None:
        for line in folder.metrics():
            self.log(line.step, metrics=line.metrics, at=line.time)

    def log_files(self, folder: RunFolder, *, rollouts: bool) -> None:
        import yaml

        spec = yaml.safe_dump(json.loads(json.dumps(folder.card().spec)), sort_keys=False)
        self.client.log_text(self.run_id, spec, "spec.yaml")
        for file in (folder.path / CERTIFICATE, folder.path / RECORD):
            if file.exists():
                self.client.log_artifact(  # pyright: ignore[reportUnknownMemberType]
                    self.run_id, str(file)
                )
        if (sealed := folder.sealed_as) is not None:
            self.client.set_tag(self.run_id, TAG, sealed)
        if not rollouts:
            return
        held = list_files(self.client, run_id=self.run_id, folder="rollouts")
        for file in sorted(folder.rollouts.glob("update-*.parquet")):
            if held.get(f"rollouts/{file.name}") != file.stat().st_size:
                self.client.log_artifact(  # pyright: ignore[reportUnknownMemberType]
                    self.run_id, str(file), "rollouts"
                )

    def close(self, *, status: str, result: Mapping[str, object] | None) -> None:
        if result is not None:
            text = json.dumps(dict(result), sort_keys=True)
            self.client.log_text(self.run_id, text, "result.json")
        self.client.set_tag(self.run_id, "gfcr.status", status)
        if status in _ENDED:
            self.client.set_terminated(self.run_id, status=_ENDED[status])


def _points(client: "MlflowClient", run: "Run") -> dict[tuple[str, int], list[float]]:
    """Values by name and step."""
    found: dict[tuple[str, int], list[float]] = {}
    for key in run.data.metrics:
        for point in client.get_metric_history(run.info.run_id, key):
            found.setdefault((key, point.step), []).append(point.value)
    return found


def _is_part(points: Mapping[tuple[str, int], list[float]], *, of: RunFolder) -> bool:
    """Whether every point is one of the folder's, once."""
    if not points:
        return True
    held = {
        (encode_name(name), line.step): float(value)
        for line in of.metrics()
        for name, value in line.metrics.items()
    }
    # A database holds infinity as its largest number, and some hold no number as 0.
    return all(
        at in held and len(values) == 1 and (values[0] == held[at] or not isfinite(held[at]))
        for at, values in points.items()
    )


def _chunks(items: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    return [items[at : at + _BATCH] for at in range(0, len(items), _BATCH)]
