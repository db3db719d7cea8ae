"""Keeps one run of an MLflow store equal to its run folder, with datasets and a rollout table."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import CERTIFICATE, MetricLine, RunFolder
from gfcr.tracking.looked_at import LookedAt, look_at, picked
from gfcr.tracking.mlflow_client import Points, list_files, open_client, read_points
from gfcr.tracking.mlflow_nested import PARENT, average, find_experiment, find_run, store_lock
from gfcr.tracking.mlflow_store import ATTEMPT, OWN_TAGS, SYSTEM
from gfcr.tracking.names import DIGEST, SEVERAL, encode_name, fit_param, flatten, spec_hash
from gfcr.tracking.parquet import every_file
from gfcr.tracking.records import TAG

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, Run
    from mlflow.tracking import MlflowClient

_ENDED: Final = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}
TABLE: Final = "rollouts.json"
_TABLES: Final = "mlflow.loggedArtifacts"
"""Tag by which MLflow's pages find tables; `MlflowClient.log_table` sets it, but only appends."""
_UPDATES: Final = 8
_EACH: Final = 2
_CONTEXTS: Final = {"training": "training", "heldout": "evaluation"}
"""MLflow's context of a dataset, by the last word of the tag with its digest."""


@final
@dataclass(kw_only=True)
class Mirror:
    """One run of an MLflow store, opened for writing."""

    client: "MlflowClient"
    uri: str
    folder: RunFolder
    run: "Run"
    seen: Points
    """The points that the store held when the run was opened."""

    @classmethod
    def open(cls, uri: str, *, folder: Path, experiment: str | None) -> "Mirror":
        """Finds or creates the run and its parents, then writes its params, tags and metrics.

        One that mirrors another folder of the same run, or holds points that the folder lacks, is
        replaced; MLflow keeps it as deleted.
        """
        held = RunFolder(folder)
        card, attempt = held.card(), held.attempt
        names = (card.study, card.arm, f"seed {card.seed}", card.run_id)
        with store_lock(uri):
            client = open_client(uri)
            where = find_experiment(client, name=experiment or card.study, uri=uri)
            study = find_run(client, where, kind="study", names=names[:1])
            arm = find_run(client, where, kind="arm", names=names[:2], parent=study)
            run = find_run(client, where, kind="seed", names=names, parent=arm)
            # No folder holds what MLflow samples.
            keys = [key for key in run.data.metrics if not key.startswith(SYSTEM)]
            seen = read_points(client, run, keys=keys)
            other = run.data.tags.get(ATTEMPT, attempt) != attempt
            replaced = other or not _is_part(seen, of=held)
            if replaced:
                seen = {}
                client.delete_run(run.info.run_id)
                run = find_run(client, where, kind="seed", names=names, parent=arm)
            client.set_tag(run.info.run_id, ATTEMPT, attempt)
            # Another machine may have made the arm again since this seed was here.
            if run.data.tags.get(PARENT) != arm.info.run_id:
                client.set_tag(run.info.run_id, PARENT, arm.info.run_id)
            if replaced:
                average(client, where, study=card.study, arm=card.arm)
        mirror = cls(client=client, uri=uri, folder=held, run=run, seen=seen)
        mirror.describe()
        mirror.log(held.metrics())
        return mirror

    @property
    def run_id(self) -> str:
        """MLflow's id of the run."""
        return self.run.info.run_id

    def describe(self) -> None:
        """Writes the run's identity, and removes tags that it no longer has."""
        from mlflow.entities import Param, RunTag

        card = self.folder.card()
        tags = {
            **card.tags,
            "gfcr.run_id": card.run_id,
            "gfcr.study": card.study,
            "gfcr.arm": card.arm,
            "gfcr.seed": str(card.seed),
            "gfcr.spec_hash": spec_hash(card.spec),
        }
        # Stopped, say, of a run that goes on.
        for name in self.run.data.tags:
            if name.startswith("gfcr.") and name not in tags and name not in OWN_TAGS:
                self.client.delete_tag(self.run_id, name)
        params = [Param(encode_name(k), fit_param(v)) for k, v in flatten(card.spec).items()]
        self.client.log_batch(
            self.run_id, params=params, tags=[RunTag(k, v) for k, v in tags.items()]
        )
        self.client.log_inputs(self.run_id, datasets=[*_datasets_of(card)])

    def reopen(self) -> None:
        """Marks the run as running."""
        self.client.set_tag(self.run_id, "gfcr.status", "running")
        self.client.update_run(self.run_id, status="RUNNING")

    def log(self, lines: Iterable[MetricLine]) -> None:
        """Adds those points of the lines that the store did not hold."""
        # MLflow would keep a step's second point beside the first, and takes none back.
        new = [point for point in _points(lines) if (point.key, point.step) not in self.seen]
        self.client.log_batch(self.run_id, metrics=new)

    def log_files(self, *, rollouts: bool) -> None:
        """Adds the folder's files: spec, certificate and, if asked, rollouts and corrections."""
        import yaml

        spec = yaml.safe_dump(self.folder.card().spec, sort_keys=False)
        self.client.log_text(self.run_id, spec, "spec.yaml")
        files = every_file(self.folder.rollouts) if rollouts else []
        _log_table(self.client, self.run_id, files=[*self.folder.updates.values()] if files else [])
        places = {f: f.parent.relative_to(self.folder.path).as_posix() for f in files}
        asked = (list_files(self.client, run_id=self.run_id, folder=p) for p in {*places.values()})
        held = {path: size for each in asked for path, size in each.items()}
        new = [(f, p) for f, p in places.items() if held.get(f"{p}/{f.name}") != f.stat().st_size]
        certificate = self.folder.path / CERTIFICATE
        for file, place in [*new, (certificate, None)]:
            if file.exists():
                self.client.log_artifact(  # pyright: ignore[reportUnknownMemberType]
                    self.run_id, str(file), place
                )

    def close(self, *, status: str, result: Mapping[str, object] | None) -> None:
        """Records the run's status and result, and brings the means of its arm up to date."""
        if result is not None:
            self.client.log_text(self.run_id, json.dumps(result, sort_keys=True), "result.json")
        if (digest := self.folder.result_digest) is not None:
            self.client.set_tag(self.run_id, TAG, digest)
        # The status comes last, so that a run that the store calls finished has its result there.
        self.client.set_tag(self.run_id, "gfcr.status", status)
        if status in _ENDED:
            self.client.set_terminated(self.run_id, status=_ENDED[status])
        card, experiment = self.folder.card(), self.run.info.experiment_id
        with store_lock(self.uri):
            average(self.client, experiment, study=card.study, arm=card.arm)


def _points(lines: Iterable[MetricLine]) -> "Iterator[Metric]":
    from mlflow.entities import Metric

    for line in lines:
        for name, value in line.metrics.items():
            yield Metric(encode_name(name), float(value), int(line.time * 1000), line.step)


def _is_part(points: Points, *, of: RunFolder) -> bool:
    """Tells whether every point is in the folder, and has one value."""
    held = {
        (point.key, point.step): point.value for point in _points(of.metrics() if points else [])
    }
    # A database holds infinity as its largest number, and some hold no number as 0.
    return all(
        at in held and len(values) == 1 and (values[0] == held[at] or not isfinite(held[at]))
        for at, values in points.items()
    )


def _datasets_of(card: RunCard) -> "Iterator[DatasetInput]":
    """Yields the training and held-out datasets, as far as the run's card names them."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    task: Any = card.spec.get("task", {})
    for word, context in _CONTEXTS.items():
        split = (word == "heldout" and task.get("heldout_split")) or task.get("split")
        # Several, where a run went on with other data.
        for digest in filter(None, card.tags.get(f"{DIGEST}{word}", "").split(SEVERAL)):
            name, kind, source = _source(task, split=split)
            dataset = Dataset(name, digest, kind, json.dumps(source))
            yield DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


def _source(task: Mapping[str, Any], *, split: str | None) -> tuple[str, str, dict[str, Any]]:
    """Returns a dataset's name, MLflow's word for the kind of its source, and the source."""
    if (path := task.get("path")) is None:
        made_by = {"mlflow.source.type": "TASK", "mlflow.source.name": task["name"]}
        return str(task.get("dataset", task["name"])), "code", {"tags": made_by}
    if Path(path).exists():
        return Path(path).name, "local", {"uri": Path(path).resolve().as_uri()}
    source = {"path": path, "config_name": task.get("subset") or None, "split": split}
    return str(path), "hugging_face", source


def _log_table(client: "MlflowClient", run_id: str, *, files: Sequence[Path]) -> None:
    """Writes the best, worst and rejected rollouts of some updates, replacing an earlier table.

    The rollout files are given in order of updates; the first and the last are among those shown.
    """
    last = len(files) - 1
    places = sorted({round(last * at / (_UPDATES - 1)) for at in range(_UPDATES)}) if files else ()
    rows = [
        _row(each, pick=pick)
        for place in places
        for pick, found in picked(look_at(files[place]), each=_EACH).items()
        for each in found
    ]
    if not rows:
        return
    table = {"columns": [*rows[0]], "data": [[*row.values()] for row in rows]}
    client.log_text(run_id, json.dumps(table), TABLE)
    client.set_tag(run_id, _TABLES, json.dumps([{"path": TABLE, "type": "table"}]))


def _row(each: LookedAt, *, pick: str) -> dict[str, Any]:
    rollout = each.rollout
    return {
        "update": each.update,
        "picked as": pick,
        "reward": rollout.reward,
        "advantage": each.mean_advantage,
        "fate": each.fate,
        "prompt": rollout.prompt.text,
        "completion": rollout.text,
        "answer": rollout.prompt.answer,
        "tokens": len(rollout),
        "finish": rollout.finish.value,
    }
