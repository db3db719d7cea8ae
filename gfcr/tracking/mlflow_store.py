"""An MLflow store: opening it, finding runs in it, reading them back."""

import json
import os
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfcr.errors import StoreError
from gfcr.tracking.mlflow_sqlite import check_readable, check_writable
from gfcr.tracking.names import decode_name, digest
from gfcr.tracking.records import Curve, RunRecord

if TYPE_CHECKING:
    from filelock import FileLock
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient


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
    found = client.search_experiments()  # pyright: ignore[reportUnknownMemberType]
    experiments = [e.experiment_id for e in found]
    token: str | None = None
    while experiments:
        page = client.search_runs(experiments, "tags.`gfcr.kind` = 'seed'", page_token=token)
        yield from (r for r in page if study in (None, r.data.tags.get("gfcr.study")))
        token = str(page.token or "")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if not token:
            return


def _record(client: "MlflowClient", *, run: "Run", series: Sequence[str]) -> RunRecord:
    tags, run_id = run.data.tags, run.info.run_id
    held = {decode_name(key): key for key in run.data.metrics}
    files, damage = _read_files(client, run_id)
    seed = tags.get("gfcr.seed", "")
    numbered = seed.removeprefix("-").isdecimal()
    if not numbered:
        damage.append(f"the tag gfcr.seed is {seed!r}")
    return RunRecord(
        run_id=tags.get("gfcr.run_id", run_id),
        study=tags.get("gfcr.study", "?"),
        arm=tags.get("gfcr.arm", "?"),
        seed=int(seed) if numbered else -1,
        status=tags.get("gfcr.status", "running"),
        tags={k: v for k, v in sorted(tags.items()) if k.startswith("gfcr.")},
        params={decode_name(k): v for k, v in sorted(run.data.params.items())},
        result=files.get("result.json"),
        spec=files.get("spec.yaml"),
        damage="; ".join(damage),
        series={name: _curve(client, run_id, held[name]) for name in series if name in held},
    )


def _read_files(client: "MlflowClient", run_id: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns the contents of the run's result and spec files, and what is wrong with them."""
    import yaml

    found: dict[str, dict[str, Any]] = {}
    damage: list[str] = []
    held = list_files(client, run_id=run_id)
    with tempfile.TemporaryDirectory() as folder:
        for name, parse in (("result.json", json.loads), ("spec.yaml", yaml.safe_load)):
            if name not in held:
                continue
            path = client.download_artifacts(run_id, name, folder)
            try:
                found[name] = dict(parse(Path(path).read_text("utf-8")))
            except (ValueError, TypeError, yaml.YAMLError):
                damage.append(f"{name} cannot be read")
    return found, damage


def _curve(client: "MlflowClient", run_id: str, key: str) -> Curve:
    return tuple(sorted((p.step, p.value) for p in client.get_metric_history(run_id, key)))


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
