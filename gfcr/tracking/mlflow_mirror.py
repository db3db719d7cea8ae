"""Keeps one run of an MLflow store equal to its run folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, final

from gfcr.tracking import mlflow_arms
from gfcr.tracking.base import RunCard
from gfcr.tracking.checksum import TAG
from gfcr.tracking.folder import CERTIFICATE, RunFolder
from gfcr.tracking.mlflow_client import (
    PARENT,
    batches,
    find_experiment,
    find_run,
    list_files,
    open_client,
    store_lock,
)
from gfcr.tracking.mlflow_datasets import datasets_of
from gfcr.tracking.mlflow_store import ATTEMPT, OWN_TAGS, SYSTEM
from gfcr.tracking.mlflow_table import log_table
from gfcr.tracking.names import encode_name, fit_param, flatten, spec_hash

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

_BATCH = 100
"""The most params and tags that one request may carry."""
_ENDED = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


@final
@dataclass(kw_only=True)
class Mirror:
    """One run of an MLflow store, opened for writing."""

    client: "MlflowClient"
    uri: str
    experiment: str
    """MLflow's id of the experiment."""
    card: RunCard
    run_id: str
    seen: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """The (name, step) pairs of the points that the store held when the run was opened."""

    @classmethod
    def open(cls, uri: str, *, card: RunCard, experiment: str, folder: RunFolder) -> "Mirror":
        """Finds or creates the run and its parents, then writes its params and tags.

        One that mirrors another folder of the same run, or holds points that the folder lacks, is
        replaced; MLflow keeps it as deleted.
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
            replaced = other or not _is_part(seen, of=folder)
            if replaced:
                seen = {}
                client.delete_run(run.info.run_id)
                run = find_run(client, where, kind="seed", names=names, parent=arm)
            client.set_tag(run.info.run_id, ATTEMPT, attempt)
            # Another machine may have made the arm again since this seed was here.
            if run.data.tags.get(PARENT) != arm.info.run_id:
                client.set_tag(run.info.run_id, PARENT, arm.info.run_id)
            if replaced:
                mlflow_arms.average(client, where, study=card.study, arm=card.arm)
        mirror = cls(
            client=client,
            uri=uri,
            experiment=where,
            card=card,
            run_id=run.info.run_id,
            seen=set(seen),
        )
        mirror.describe(held=run.data.tags)
        return mirror

    def describe(self, *, held: Mapping[str, str]) -> None:
        """Writes the run's identity, and removes tags of `held` that it no longer has."""
        from mlflow.entities import Param, RunTag

        card = self.card
        tags = {
            **card.tags,
            "gfcr.run_id": card.run_id,
            "gfcr.study": card.study,
            "gfcr.arm": card.arm,
            "gfcr.seed": str(card.seed),
            "gfcr.spec_hash": spec_hash(card.spec),
        }
        # Stopped, say, of a run that goes on.
        for name in held:
            if name.startswith("gfcr.") and name not in tags and name not in OWN_TAGS:
                self.client.delete_tag(self.run_id, name)
        params = {encode_name(k): fit_param(v) for k, v in flatten(card.spec).items()}
        for part in batches(sorted(tags.items()), size=_BATCH):
            self.client.log_batch(self.run_id, tags=[RunTag(k, v) for k, v in part])
        for part in batches(sorted(params.items()), size=_BATCH):
            self.client.log_batch(self.run_id, params=[Param(k, v) for k, v in part])
        self.client.log_inputs(self.run_id, datasets=[*datasets_of(card)])

    def reopen(self) -> None:
        """Marks the run as running."""
        self.client.set_tag(self.run_id, "gfcr.status", "running")
        self.client.update_run(self.run_id, status="RUNNING")

    def log(self, step: int, *, metrics: Mapping[str, float], at: float) -> None:
        """Adds those points of a step that are missing, in one request; `at` is in seconds."""
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
        """Adds the folder's points that are missing."""
        for line in folder.metrics():
            self.log(line.step, metrics=line.metrics, at=line.time)

    def log_files(self, folder: RunFolder, *, rollouts: bool) -> None:
        """Adds the folder's files: spec, certificate and, if asked for, rollouts."""
        import yaml

        spec = yaml.safe_dump(json.loads(json.dumps(folder.card().spec)), sort_keys=False)
        self.client.log_text(self.run_id, spec, "spec.yaml")
        certificate = folder.path / CERTIFICATE
        if certificate.exists():
            self.client.log_artifact(  # pyright: ignore[reportUnknownMemberType]
                self.run_id, str(certificate)
            )
        if not rollouts:
            return
        held = list_files(self.client, run_id=self.run_id, folder="rollouts")
        files = [*folder.updates.values()]
        log_table(self.client, self.run_id, files=files)
        for file in files:
            if held.get(f"rollouts/{file.name}") != file.stat().st_size:
                self.client.log_artifact(  # pyright: ignore[reportUnknownMemberType]
                    self.run_id, str(file), "rollouts"
                )

    def close(
        self, *, status: str, result: Mapping[str, object] | None, digest: str | None
    ) -> None:
        """Records the run's status and result, and brings the means of its arm up to date.

        Args:
            status: the run's status.
            result: the run's result; None where it has none yet.
            digest: the digest of the result; None for a run that has not ended.
        """
        if result is not None:
            text = json.dumps(dict(result), sort_keys=True)
            self.client.log_text(self.run_id, text, "result.json")
        if digest is not None:
            self.client.set_tag(self.run_id, TAG, digest)
        self.client.set_tag(self.run_id, "gfcr.status", status)
        if status in _ENDED:
            self.client.set_terminated(self.run_id, status=_ENDED[status])
        with store_lock(self.uri):
            card = self.card
            mlflow_arms.average(self.client, self.experiment, study=card.study, arm=card.arm)


def _points(client: "MlflowClient", run: "Run") -> dict[tuple[str, int], list[float]]:
    """Returns values by name and step, without the system metrics, which no folder holds."""
    found: dict[tuple[str, int], list[float]] = {}
    for key in run.data.metrics:
        if key.startswith(SYSTEM):
            continue
        for point in client.get_metric_history(run.info.run_id, key):
            found.setdefault((key, point.step), []).append(point.value)
    return found


def _is_part(points: Mapping[tuple[str, int], list[float]], *, of: RunFolder) -> bool:
    """Tells whether every point is in the folder, and has one value."""
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
