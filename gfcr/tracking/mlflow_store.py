"""Runs of an MLflow store, read back."""

import json
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfcr.errors import StoreError
from gfcr.tracking import attempts
from gfcr.tracking.attempts import Attempt
from gfcr.tracking.folder import CERTIFICATE, RECORD
from gfcr.tracking.mlflow_client import list_files, open_client, search, short
from gfcr.tracking.names import HELDOUT, decode_name, encode_name
from gfcr.tracking.records import Curve, RunRecord
from gfcr.tracking.seal import contradiction

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

ROSTER = "gfcr.seed."
"""Tags of an arm's run, one for each of its seeds' runs: `[study, arm, seed]` by run id."""
ATTEMPT = "gfcr.attempt"
"""Tag: which of the attempts at a run it is."""
SYSTEM = "system/"
"""Prefix of metrics of the machine, which MLflow samples: no part of a run's record."""
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
    with telling(uri):
        every = list(_seeds(client, study=study))
        runs = [run for run in every if run.info.lifecycle_stage == "active"]
        found = [_read_run(client, run=run, series=series, of=every) for run in runs]
        found += _lost(client, study=study, held={record.run_id for record in found})
    return sorted(found, key=lambda r: (r.study, r.arm, r.seed, r.run_id))


@contextmanager
def telling(uri: str) -> Generator[None]:
    """Makes a `StoreError` of what goes wrong with a store."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        raise StoreError(
            f"tracking.uri={uri!r} cannot be used ({short(error)}). Start the server, correct the "
            "address, or put the store back from a copy."
        ) from error


def _read_run(
    client: "MlflowClient", *, run: "Run", series: Sequence[str], of: "Sequence[Run]"
) -> RunRecord:
    """One run; one that cannot be read is a record that says so, and hides no other."""
    try:
        record = _record(client, run=run, series=series)
        own = run.data.tags.get(ATTEMPT, "")
        others = (o for o in of if o.data.tags.get("gfcr.run_id") == record.run_id)
        replaced = [o for o in others if o.data.tags.get(ATTEMPT, own) < own]
        known = [*record.earlier, *(_attempt(client, run=o) for o in replaced)]
        return replace(record, earlier=attempts.before(own, known=known))
    except Exception as error:
        damage = f"it cannot be read: {type(error).__name__}: {error}"[:300]
        return RunRecord(**_named(run), damage=damage)


def _named(run: "Run") -> dict[str, Any]:
    """Who the run is, as far as its tags say; a seed of -1 is none."""
    tags = run.data.tags
    seed = tags.get("gfcr.seed", "")
    return {
        "run_id": tags.get("gfcr.run_id", run.info.run_id),
        "study": tags.get("gfcr.study", "?"),
        "arm": tags.get("gfcr.arm", "?"),
        "seed": int(seed) if seed.removeprefix("-").isdecimal() else -1,
        "status": tags.get("gfcr.status", "running"),
    }


def read_attempts(client: "MlflowClient", *, run_id: str) -> list[Attempt]:
    """Returns every attempt at a run that the store was told of, deleted ones among them."""
    query = f"tags.`gfcr.run_id` = '{run_id}'"
    found = search(client, query, deleted=True)
    return [_attempt(client, run=run) for run in found if ATTEMPT in run.data.tags]


def _attempt(client: "MlflowClient", *, run: "Run") -> Attempt:
    metrics, tags = run.data.metrics, run.data.tags
    score, others = (
        encode_name(HELDOUT),
        sorted(m for m in metrics if not m.startswith(("heldout/", SYSTEM))),
    )
    scores = (
        [p for p in read_curve(client, run.info.run_id, score) if p[0]] if score in metrics else []
    )
    steps = [step for name in others[:1] for step, _ in read_curve(client, run.info.run_id, name)]
    return Attempt(
        id=tags[ATTEMPT],
        status=tags.get("gfcr.status", "running"),
        updates=max(steps, default=0),
        score=scores[-1][1] if scores else None,
        code=attempts.code_of(tags),
    )


def _seeds(client: "MlflowClient", *, study: str | None) -> "Iterator[Run]":
    """Runs that any of their tags and parameters says are of the study: no one edit hides one.

    Deleted ones too: what was run before is known by them.
    """
    found: dict[str, Run] = {}
    for query in ("tags.`gfcr.kind` = 'seed'", "tags.`gfcr.run_id` LIKE '%'"):
        found |= {run.info.run_id: run for run in search(client, query, deleted=True)}
    for run in found.values():
        if study in (None, run.data.tags.get("gfcr.study"), run.data.params.get("study")):
            yield run


def _lost(
    client: "MlflowClient", *, study: str | None, held: Collection[str]
) -> Iterator[RunRecord]:
    """Runs that were in the store, as their arm's roster has them, and are there no longer."""
    for arm in search(client, "tags.`gfcr.kind` = 'arm'"):
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
                    damage="the run was there and is no longer: deleted, or hidden",
                )


def _record(client: "MlflowClient", *, run: "Run", series: Sequence[str]) -> RunRecord:
    tags, run_id = run.data.tags, run.info.run_id
    held = {decode_name(key): key for key in run.data.metrics}
    files, damage = _read_files(client, run_id)
    named = _named(run)
    if str(named["seed"]) != (seed := tags.get("gfcr.seed", "")):
        damage.append(f"the tag gfcr.seed is {seed!r}")
    record = RunRecord(
        **named,
        tags={k: v for k, v in sorted(tags.items()) if k.startswith("gfcr.") and k not in OWN_TAGS},
        params={decode_name(k): v for k, v in sorted(run.data.params.items())},
        result=files.get("result.json"),
        spec=files.get("spec.yaml"),
        certificate=files.get(CERTIFICATE),
        seal=files.get(RECORD),
        earlier=attempts.of_result(files.get("result.json")),
        series={n: read_curve(client, run_id, held[n]) if n in held else () for n in series},
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


def read_curve(client: "MlflowClient", run_id: str, key: str) -> Curve:
    """Returns a metric's points, the latest of each step, in the order of steps."""
    points = sorted(client.get_metric_history(run_id, key), key=lambda p: p.timestamp)
    return tuple(sorted({p.step: p.value for p in points}.items()))
