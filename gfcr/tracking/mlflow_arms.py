"""The run of an arm in MLflow: means over its seeds, for MLflow's own pages.

The leaderboard reads seeds' runs alone. MLflow cannot take a point back, so that an arm whose means
are no longer those of its seeds (one has joined, or was started over) is made again.
"""

from math import fsum, isclose, isfinite
from time import time
from typing import TYPE_CHECKING, Final

from gfcr.tracking.mlflow_client import NOTE, PARENT, batches, find_run
from gfcr.tracking.mlflow_store import read_curve
from gfcr.tracking.names import HELDOUT, encode_name

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

CURVES: Final = (
    HELDOUT,
    "reward/all",
    "group/dead_share",
    "length/all/mean",
    "rate/r_gen",
    "time/step_s",
)
"""Metrics whose mean over the seeds of an arm is recorded at every update."""
_COUNTED: Final = ("finished", "paused", "stopped")
_POINTS: Final = 1000
"""The most points that one request may carry."""


def average(client: "MlflowClient", experiment: str, *, study: str, arm: str) -> None:
    """Brings an arm's means up to date with its seeds; the caller holds the store's lock.

    Means are over seeds that have ended without failing, at updates that all of these have reached.
    """
    above = find_run(client, experiment, kind="arm", names=(study, arm))
    own = f"tags.`{PARENT}` = '{above.info.run_id}' AND tags.`gfcr.kind` = 'seed'"
    seeds = list(client.search_runs([experiment], own))
    ended = [seed for seed in seeds if seed.data.tags.get("gfcr.status") in _COUNTED]
    wanted = {name: _mean(client, ended, name=name) for name in map(encode_name, CURVES)}
    held = {name: _points(client, above, name=name) for name in above.data.metrics}
    if any(not _within(curve, whole=wanted.get(name, {})) for name, curve in held.items()):
        above, held = _replace_arm(client, above, seeds=seeds), {}
    _log(client, above, wanted=wanted, held=held)
    numbers = sorted(int(seed.data.tags["gfcr.seed"]) for seed in ended)
    note = f"Means over seeds {', '.join(map(str, numbers))}, as far as all of them have come."
    if numbers and above.data.tags.get(NOTE) != note:
        client.set_tag(above.info.run_id, NOTE, note)


def _points(client: "MlflowClient", run: "Run", *, name: str) -> dict[int, float]:
    return dict(read_curve(client, run.info.run_id, name)) if name in run.data.metrics else {}


def _mean(client: "MlflowClient", seeds: "list[Run]", *, name: str) -> dict[int, float]:
    """Returns the mean over seeds at each step that all of them have."""
    curves = [_points(client, run, name=name) for run in seeds]
    steps = [at for at in (curves[0] if curves else ()) if all(at in curve for curve in curves)]
    means = {at: fsum(curve[at] for curve in curves) / len(curves) for at in steps}
    return {at: mean for at, mean in means.items() if isfinite(mean)}


def _within(curve: dict[int, float], *, whole: dict[int, float]) -> bool:
    return all(at in whole and isclose(value, whole[at]) for at, value in curve.items())


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


def _log(
    client: "MlflowClient",
    arm: "Run",
    *,
    wanted: dict[str, dict[int, float]],
    held: dict[str, dict[int, float]],
) -> None:
    from mlflow.entities import Metric

    now = int(time() * 1000)
    new = [
        Metric(name, value, now, at)
        for name, curve in wanted.items()
        for at, value in curve.items()
        if at not in held.get(name, {})
    ]
    for part in batches(new, size=_POINTS):
        client.log_batch(arm.info.run_id, metrics=part)
