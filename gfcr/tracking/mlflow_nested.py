"""Finds and makes runs nested study -> arm -> seed, and keeps an arm's means over its seeds.

Means are for MLflow's own pages: the leaderboard reads seeds' runs alone. MLflow cannot take a
point back, so that an arm whose means are no longer those of its seeds (one has joined, or was
started over) is made again.
"""

import os
import tempfile
from collections.abc import Collection, Iterable
from math import fsum, isclose, isfinite
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Final, TypeAlias

from gfcr.tracking.mlflow_client import full, read_points, sqlite_file
from gfcr.tracking.names import HELDOUT, digest, encode_name

if TYPE_CHECKING:
    from filelock import FileLock
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

PARENT: Final = "mlflow.parentRunId"
CURVES: Final = (
    HELDOUT,
    "reward/all",
    "group/dead_share",
    "length/all/mean",
    "rate/r_gen",
    "time/step_s",
)
"""Metrics whose mean over the seeds of an arm is recorded at every update."""
_NOTE: Final = "mlflow.note.content"
"""The tag with the text at the top of a run's page."""
_KIND: Final = "mlflow.experimentKind"
_TRAINING: Final = "custom_model_development"
"""The kind of experiment whose pages show runs; without it they show traces."""
_COUNTED: Final = ("finished", "paused", "stopped")
_Curves: TypeAlias = dict[tuple[str, int], float]
"""Values by metric and step."""


def store_lock(uri: str) -> "FileLock":
    """Returns a lock for creating tables, experiments and parent runs from this machine."""
    from filelock import FileLock

    # The user's number is in it, as another user's lock file could not be opened.
    name = f"gfcr-{os.getuid()}-{digest(full(uri))[:16]}.lock"
    return FileLock(Path(tempfile.gettempdir()) / name, timeout=60)


def find_experiment(client: "MlflowClient", *, name: str, uri: str) -> str:
    """Returns the id of the experiment of this name, created when missing."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        if _KIND not in found.tags:
            client.set_experiment_tag(found.experiment_id, _KIND, _TRAINING)
        return found.experiment_id
    file = sqlite_file(uri)
    # MLflow's own default is relative to whatever folder the reader happens to stand in.
    place = (file.parent / "mlartifacts" / digest(name)[:12]).as_uri() if file else None
    return client.create_experiment(name, artifact_location=place, tags={_KIND: _TRAINING})


def find_run(
    client: "MlflowClient",
    experiment: str,
    *,
    kind: str,
    names: tuple[str, ...],
    parent: "Run | None" = None,
) -> "Run":
    """Finds the run with these names, or creates it.

    If two machines create it at the same time, both take the older one afterwards.
    """
    key = digest((kind, *names))
    query = f"tags.`gfcr.key` = '{key}'"
    found = client.search_runs([experiment], query)
    if not found:
        tags = {"gfcr.key": key, "gfcr.kind": kind, "gfcr.study": names[0]}
        if parent is not None:
            tags[PARENT] = parent.info.run_id
        name = " / ".join(names[1:3]) or names[0]
        made = client.create_run(experiment, run_name=name, tags=tags)
        if kind != "seed":
            client.set_terminated(made.info.run_id)
        found = client.search_runs([experiment], query)
    return min(found, key=lambda run: (run.info.start_time, run.info.run_id))


def average(client: "MlflowClient", experiment: str, *, study: str, arm: str) -> None:
    """Brings an arm's means up to date with its seeds; the caller holds the store's lock.

    Means are over seeds that have ended without failing, have a score and differ from the newest in
    nothing but the seed, at updates that all of these have reached.
    """
    from mlflow.entities import Metric

    above = find_run(client, experiment, kind="arm", names=(study, arm))
    own = f"tags.`{PARENT}` = '{above.info.run_id}' AND tags.`gfcr.kind` = 'seed'"
    seeds = list(client.search_runs([experiment], own))
    # One that was left, or stopped, before its first evaluation has come nowhere.
    scored = [seed for seed in seeds if encode_name(HELDOUT) in seed.data.metrics]
    ended = [seed for seed in scored if seed.data.tags.get("gfcr.status") in _COUNTED]
    if ended:  # those of an arm that was edited since are of another one
        newest = max(ended, key=lambda seed: (seed.info.start_time, seed.info.run_id))
        spec = newest.data.tags.get("gfcr.spec_hash")
        ended = [seed for seed in ended if seed.data.tags.get("gfcr.spec_hash") == spec]
    wanted = _means([_curves(client, run, keys=map(encode_name, CURVES)) for run in ended])
    held = _curves(client, above, keys=above.data.metrics)
    if not all(at in wanted and isclose(value, wanted[at]) for at, value in held.items()):
        above, held = _replace_arm(client, above, seeds=seeds), {}
    now, new = int(time() * 1000), [at for at in wanted if at not in held]
    points = [Metric(name, wanted[name, step], now, step) for name, step in new]
    client.log_batch(above.info.run_id, metrics=points)
    numbers = sorted(int(seed.data.tags["gfcr.seed"]) for seed in ended)
    note = f"Means over seeds {', '.join(map(str, numbers))}, as far as all of them have come."
    if numbers and above.data.tags.get(_NOTE) != note:
        client.set_tag(above.info.run_id, _NOTE, note)


def _curves(client: "MlflowClient", run: "Run", *, keys: Iterable[str]) -> _Curves:
    return {at: values[-1] for at, values in read_points(client, run, keys=keys).items()}


def _means(curves: Collection[_Curves]) -> _Curves:
    """Returns the means, as far as they are finite, of what all seeds have."""
    shared = set[tuple[str, int]].intersection(*map(set, curves)) if curves else ()
    # The sums are exact, so that the order in which seeds ended changes no digit.
    means = {at: fsum(each[at] for each in curves) / len(curves) for at in sorted(shared)}
    return {at: mean for at, mean in means.items() if isfinite(mean)}


def _replace_arm(client: "MlflowClient", arm: "Run", *, seeds: "list[Run]") -> "Run":
    """Replaces an arm's run by one without points, and moves its seeds there."""
    made = client.create_run(
        arm.info.experiment_id, run_name=arm.info.run_name, tags=dict(arm.data.tags)
    )
    for seed in seeds:
        client.set_tag(seed.info.run_id, PARENT, made.info.run_id)
    client.set_terminated(made.info.run_id)
    client.delete_run(arm.info.run_id)
    return made
