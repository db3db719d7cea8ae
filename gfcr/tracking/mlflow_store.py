"""Reads runs of an MLflow store as records."""

import json
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfcr.errors import StoreError
from gfcr.tracking.checksum import TAG, contradiction
from gfcr.tracking.mlflow_client import list_files, open_client, remedy, search, short
from gfcr.tracking.names import decode_name
from gfcr.tracking.records import Curve, RunRecord

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

ATTEMPT = "gfcr.attempt"
"""Tag with the attempt of the folder that the run mirrors, see `RunFolder.attempt`."""
SYSTEM = "system/"
"""Prefix of the system metrics that MLflow samples, which are no part of a run's record."""
OWN_TAGS = {
    f"gfcr.{name}"
    for name in ("run_id", "study", "arm", "seed", "status", "kind", "key", "attempt")
}
"""Tags by which the store finds runs; they become fields of a record and are not in its tags."""


def read_runs(uri: str, *, study: str | None = None, series: Sequence[str] = ()) -> list[RunRecord]:
    """Reads every run of a store (of one study, if named), sorted by study, arm, seed and id.

    Args:
        uri: MLflow tracking URI.
        study: study to read; None reads all.
        series: names of the metrics whose values over updates are wanted.

    Raises:
        StoreError: it cannot be reached or read; nothing was made or changed.
    """
    client = open_client(uri, reading=True)
    with telling(uri):
        found = [_read_run(client, run=run, series=series) for run in _seeds(client, study=study)]
    return sorted(found, key=lambda r: (r.study, r.arm, r.seed, r.run_id))


@contextmanager
def telling(uri: str) -> Generator[None]:
    """Turns the errors of a store into a `StoreError`."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        raise StoreError(
            f"tracking.uri={uri!r} cannot be used ({short(error)}). {remedy(error)}."
        ) from error


def _read_run(client: "MlflowClient", *, run: "Run", series: Sequence[str]) -> RunRecord:
    """Reads one run; one that cannot be read becomes a record that says so."""
    try:
        return _record(client, run=run, series=series)
    except Exception as error:
        damage = f"it cannot be read: {type(error).__name__}: {error}"[:300]
        return RunRecord(**_named(run), damage=damage)


def _named(run: "Run") -> dict[str, Any]:
    """Returns the identity of a run as far as its tags say; a seed of -1 stands for none."""
    tags = run.data.tags
    seed = tags.get("gfcr.seed", "")
    return {
        "run_id": tags.get("gfcr.run_id", run.info.run_id),
        "study": tags.get("gfcr.study", "?"),
        "arm": tags.get("gfcr.arm", "?"),
        "seed": int(seed) if seed.removeprefix("-").isdecimal() else -1,
        "status": tags.get("gfcr.status", "running"),
    }


def _seeds(client: "MlflowClient", *, study: str | None) -> "Iterator[Run]":
    """Yields the runs of seeds, of one study if it is named."""
    for run in search(client, "tags.`gfcr.kind` = 'seed'"):
        if study in (None, run.data.tags.get("gfcr.study"), run.data.params.get("study")):
            yield run


def _record(client: "MlflowClient", *, run: "Run", series: Sequence[str]) -> RunRecord:
    tags, run_id = run.data.tags, run.info.run_id
    held = {decode_name(key): key for key in run.data.metrics}
    files, damage = _read_files(client, run_id)
    named = _named(run)
    if str(named["seed"]) != (seed := tags.get("gfcr.seed", "")):
        damage.append(f"the tag gfcr.seed is {seed!r}")
    result, status = files.get("result.json"), named["status"]
    record = RunRecord(
        **named,
        tags={k: v for k, v in sorted(tags.items()) if k.startswith("gfcr.") and k not in OWN_TAGS},
        params={decode_name(k): v for k, v in sorted(run.data.params.items())},
        result=result,
        spec=files.get("spec.yaml"),
        series={n: read_curve(client, run_id, held[n]) if n in held else () for n in series},
    )
    changed = contradiction(record, status=status, result=result, recorded=tags.get(TAG))
    return replace(record, damage="; ".join(damage) or changed or "")


def _read_files(client: "MlflowClient", run_id: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns the contents of the run's files, and a list of what is wrong with them."""
    import yaml

    found: dict[str, dict[str, Any]] = {}
    damage: list[str] = []
    held = list_files(client, run_id=run_id)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("result.json", "spec.yaml"):
            parse: Callable[[str], Any] = yaml.safe_load if name == "spec.yaml" else json.loads
            if name not in held:
                continue
            path = client.download_artifacts(run_id, name, folder)
            try:
                found[name] = dict(parse(Path(path).read_text("utf-8")))
            except (ValueError, TypeError, yaml.YAMLError):
                damage.append(f"{name} cannot be read")
    return found, damage


def read_curve(client: "MlflowClient", run_id: str, key: str) -> Curve:
    """Returns a metric's points, the latest of each step, in the order of steps."""
    points = sorted(client.get_metric_history(run_id, key), key=lambda p: p.timestamp)
    return tuple(sorted({p.step: p.value for p in points}.items()))
