"""Reads runs of an MLflow store as records, and their rollouts."""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gfcr.tracking.looked_at import LookedAt, look_at
from gfcr.tracking.mlflow_client import list_files, open_client, read_points, search, telling
from gfcr.tracking.names import decode_name, encode_name
from gfcr.tracking.records import Curve, RunRecord, contradiction

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
MOST_BYTES: Final = 16 << 20
"""The largest rollout file that is downloaded to show it, in bytes."""


def read_runs(uri: str, *, study: str | None = None, series: Sequence[str] = ()) -> list[RunRecord]:
    """Reads every run of a store (of one study, if named), sorted by study, arm, seed and id.

    `series` names the metrics whose values over updates are wanted.

    Raises:
        StoreError: it cannot be reached or read; nothing was made or changed.
    """
    with telling(f"tracking.uri={uri!r}"):
        client = open_client(uri, reading=True)
        found = [
            _read_run(client, run=run, series=series)
            for run in search(client, "tags.`gfcr.kind` = 'seed'")
            if study in (None, run.data.tags.get("gfcr.study"), run.data.params.get("study"))
        ]
    return sorted(found, key=lambda r: (r.study, r.arm, r.seed, r.run_id))


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


def _record(client: "MlflowClient", *, run: "Run", series: Sequence[str]) -> RunRecord:
    tags, run_id = run.data.tags, run.info.run_id
    files, damage = _read_files(client, run_id)
    record = RunRecord(
        **_named(run),
        tags={k: v for k, v in sorted(tags.items()) if k.startswith("gfcr.") and k not in OWN_TAGS},
        params={decode_name(k): v for k, v in sorted(run.data.params.items())},
        result=files.get("result.json"),
        spec=files.get("spec.yaml"),
        series={name: _curve(client, run, name=name) for name in series},
    )
    return replace(record, damage="; ".join(damage) or contradiction(record))


def _curve(client: "MlflowClient", run: "Run", *, name: str) -> Curve:
    """Returns a metric's points, the latest of each step, in the order of steps."""
    points = read_points(client, run, keys=[encode_name(name)])
    return tuple(sorted((step, values[-1]) for (_, step), values in points.items()))


def _read_files(client: "MlflowClient", run_id: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Returns the contents of the run's files, and a list of what is wrong with them."""
    import yaml

    found: dict[str, dict[str, Any]] = {}
    damage: list[str] = []
    parsers: dict[str, Callable[[str], Any]]
    parsers = {"result.json": json.loads, "spec.yaml": yaml.safe_load}
    held = list_files(client, run_id=run_id)
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in parsers if name in held]:
            path = client.download_artifacts(run_id, name, folder)
            try:
                found[name] = dict(parsers[name](Path(path).read_text("utf-8")))
            except (ValueError, TypeError, yaml.YAMLError):
                damage.append(f"{name} cannot be read")
    return found, damage


def newest_rollouts(uri: str, *, run_id: str) -> list[LookedAt]:
    """Returns the rollouts of a run's newest update whose file has at most `MOST_BYTES`.

    There are none where the store holds no rollout files (`tracking.artifacts: results`).

    Raises:
        StoreError: the store cannot be read.
    """
    with telling(f"tracking.uri={uri!r}"), tempfile.TemporaryDirectory() as folder:
        client = open_client(uri, reading=True)
        for run in search(client, f"tags.`gfcr.run_id` = '{run_id}'"):
            held = list_files(client, run_id=run.info.run_id, folder="rollouts")
            # A folder has no size.
            fitting = [name for name, size in held.items() if 0 < (size or 0) <= MOST_BYTES]
            if fitting:
                # Updates stand in names with leading zeros, so that the largest is the newest.
                file = client.download_artifacts(run.info.run_id, max(fitting), folder)
                return look_at(Path(file))
    return []
