"""An MLflow store: opening it, finding runs in it, reading them back."""

import json
import os
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfcr.errors import StoreError
from gfcr.tracking.folder import CERTIFICATE, RECORD
from gfcr.tracking.mlflow_sqlite import check_readable, check_writable
from gfcr.tracking.names import decode_name, digest
from gfcr.tracking.records import Curve, RunRecord
from gfcr.tracking.seal import contradiction

if TYPE_CHECKING:
    from filelock import FileLock
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

ROSTER = "gfcr.seed."
"""Tags of an arm's run, one for each of its seeds' runs: `[study, arm, seed]` by run id."""
OWN_TAGS = {
    f"gfcr.{name}"
    for name in ("run_id", "study", "arm", "seed", "status", "kind", "key", "attempt")
}
"""Tags by which the store finds runs: fields of a record, and none of its tags."""


def read_runs(uri: str, *, study: str | None = None, series: Sequence[str] = ()) -> list[RunRecord]:
    """Reads every run of a store (of one study, if named), sorted by study, arm, seed and id.

    Args:
        uri: MLflow tracking URI.
        study: study to read; None reads all.
        series: metrics whose course over updates is wanted.

    Raises:
        StoreError: it cannot be reached or read; nothing was made or changed.
    """
    client = open_client(uri, reading=True)
    with _reading(uri):
        runs = list(_seeds(client, study=study))
        found = [_read_run(client, run=run, series=series) for run in runs]
        found += _lost(client, study=study, held={record.run_id for record in found})
    return sorted(found, key=lambda r: (r.study, r.arm, r.seed, r.run_id))


@contextmanager
def _reading(uri: str) -> Generator[None]:
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        words = (str(error).strip().splitlines() or [""])[0][:200]
        raise StoreError(
            f"tracking.uri={uri!r} cannot be read ({type(error).__name__}: {words}). Start the "
            "server, correct the address, or put the store back from a copy."
        ) from error


def _read_run(client: "MlflowClient", *, run: "Run", series: Sequence[str]) -> RunRecord:
    """One run; one that cannot be read is a record that says so, and hides no other."""
    try:
        return _record(client, run=run, series=series)
    except Exception as error:
        tags = run.data.tags
        return RunRecord(
            run_id=tags.get("gfcr.run_id", run.info.run_id),
            study=tags.get("gfcr.study", "?"),
            arm=tags.get("gfcr.arm", "?"),
            seed=-1,
            status=tags.get("gfcr.status", "running"),
            tags={},
            params={},
            result=None,
            damage=f"it cannot be read: {type(error).__name__}: {error}"[:300],
        )


def _seeds(client: "MlflowClient", *, study: str | None) -> "Iterator[Run]":
    """Runs that any of their tags and parameters says are of the study: no one edit hides one."""
    found: dict[str, Run] = {}
    for query in ("tags.`gfcr.kind` = 'seed'", "tags.`gfcr.run_id` LIKE '%'"):
        found |= {run.info.run_id: run for run in _search(client, query)}
    for run in found.values():
        if study in (None, run.data.tags.get("gfcr.study"), run.data.params.get("study")):
            yield run


def _search(client: "MlflowClient", query: str) -> "Iterator[Run]":
    found = client.search_experiments()  # pyright: ignore[reportUnknownMemberType]
    experiments = [e.experiment_id for e in found]
    token: str | None = None
    while experiments:
        page = client.search_runs(experiments, query, page_token=token)
        yield from page
        token = str(page.token or "")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if not token:
            return


def _lost(
    client: "MlflowClient", *, study: str | None, held: Collection[str]
) -> Iterator[RunRecord]:
    """Runs that were in the store, as their arm's roster has them, and are there no longer."""
    for arm in _search(client, "tags.`gfcr.kind` = 'arm'"):
        for name, value in sorted(arm.data.tags.items()):
            run_id = name.removeprefix(ROSTER)
            if run_id == name or run_id in held:
                continue
            try:
                of, arm_name, seed = json.loads(value)
            except ValueError:
                of, arm_name, seed = arm.data.tags.get("gfcr.study", "?"), "?", -1
            if study in (None, of):
                yield RunRecord(
                    run_id=run_id,
                    study=of,
                    arm=arm_name,
                    seed=seed,
                    status="running",
                    tags={},
                    params={},
                    result=None,
                    damage="the run was there and is no longer: deleted, or hidden",
                )


def _record(client: "MlflowClient", *, run: "Run", series: Sequence[str]) -> RunRecord:
    tags, run_id = run.data.tags, run.info.run_id
    held = {decode_name(key): key for key in run.data.metrics}
    files, damage = _read_files(client, run_id)
    seed = tags.get("gfcr.seed", "")
    numbered = seed.removeprefix("-").isdecimal()
    if not numbered:
        damage.append(f"the tag gfcr.seed is {seed!r}")
    record = RunRecord(
        run_id=tags.get("gfcr.run_id", run_id),
        study=tags.get("gfcr.study", "?"),
        arm=tags.get("gfcr.arm", "?"),
        seed=int(seed) if numbered else -1,
        status=tags.get("gfcr.status", "running"),
        tags={k: v for k, v in sorted(tags.items()) if k.startswith("gfcr.") and k not in OWN_TAGS},
        params={decode_name(k): v for k, v in sorted(run.data.params.items())},
        result=files.get("result.json"),
        spec=files.get("spec.yaml"),
        certificate=files.get(CERTIFICATE),
        seal=files.get(RECORD),
        series={n: _curve(client, run_id, held[n]) if n in held else () for n in series},
    )
    return replace(record, damage="; ".join(damage) or contradiction(record) or "")


def _read_files(client: "MlflowClient", run_id: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns the contents of the run's files, and what is wrong with them."""
    import yaml

    found: dict[str, dict[str, Any]] = {}
    damage: list[str] = []
    held = list_files(client, run_id=run_id)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("result.json", "spec.yaml", CERTIFICATE, RECORD):
            parse: Callable[[str], Any] = yaml.safe_load if name == "spec.yaml" else json.loads
            if name not in held:
                continue
            path = client.download_artifacts(run_id, name, folder)
            try:
                found[name] = dict(parse(Path(path).read_text("utf-8")))
            except (ValueError, TypeError, yaml.YAMLError):
                damage.append(f"{name} cannot be read")
    return found, damage


def _curve(client: "MlflowClient", run_id: str, key: str) -> Curve:
    points = sorted(client.get_metric_history(run_id, key), key=lambda p: p.timestamp)
    return tuple(sorted({p.step: p.value for p in points}.items()))


def list_files(
    client: "MlflowClient", *, run_id: str, folder: str | None = None
) -> dict[str, int | None]:
    """Returns the run's artifacts (in `folder`, or at the top) with their sizes in bytes."""
    found = client.list_artifacts(run_id, folder)  # pyright: ignore[reportUnknownMemberType]
    return {file.path: file.file_size for file in found}


def find_experiment(client: "MlflowClient", *, name: str, uri: str) -> str:
    """Returns the id of the experiment of this name, created when missing."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        return found.experiment_id
    file = _sqlite_file(uri)
    # MLflow's own default is relative to whatever folder the reader happens to stand in.
    place = (file.parent / "mlartifacts" / digest(name)[:12]).as_uri() if file else None
    return client.create_experiment(name, artifact_location=place)


def find_run(
    client: "MlflowClient",
    experiment: str,
    *,
    kind: str,
    names: tuple[str, ...],
    parent: "Run | None" = None,
) -> "Run":
    """Finds the run with these names or creates it.

    Two machines that create it in the same moment agree afterwards: the older one is the run.
    """
    key = digest((kind, *names))
    query = f"tags.`gfcr.key` = '{key}'"
    found = client.search_runs([experiment], query)
    if not found:
        tags = {"gfcr.key": key, "gfcr.kind": kind, "gfcr.study": names[0]}
        if parent is not None:
            tags["mlflow.parentRunId"] = parent.info.run_id
        name = names[min(len(names), 3) - 1]
        made = client.create_run(experiment, run_name=name, tags=tags)
        if kind != "seed":
            client.set_terminated(made.info.run_id)
        found = client.search_runs([experiment], query)
    return min(found, key=lambda run: (run.info.start_time, run.info.run_id))


def open_client(uri: str, *, reading: bool = False) -> "MlflowClient":
    """Opens the store, quiet, and quick to say when it is down.

    Args:
        uri: MLflow tracking URI.
        reading: make and migrate nothing.

    Raises:
        StoreError: it is a SQLite file that cannot be used.
    """
    for name, value in {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    }.items():
        os.environ.setdefault(name, value)
    from mlflow.tracking import MlflowClient

    file = _sqlite_file(uri)
    if file is not None:
        (check_readable if reading else check_writable)(file)
    return MlflowClient(tracking_uri=f"sqlite:///{file}" if file else uri)


def _sqlite_file(uri: str) -> Path | None:
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def store_lock(uri: str) -> "FileLock":
    """Makes this machine's processes create tables, experiments and parents one at a time."""
    from filelock import FileLock

    name = f"gfcr-{os.getuid()}-{digest(str(_sqlite_file(uri) or uri))[:16]}.lock"
    return FileLock(Path(tempfile.gettempdir()) / name, timeout=60)
