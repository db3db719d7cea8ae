"""Runs written to a folder and a tracker as experiments write them, and stores read back whole."""

import numpy as np

from gfcr.testing.factories import group, group_of, rollout
from gfcr.tracking import ended
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.mlflow_client import open_client
from gfcr.tracking.rollouts import write_rollouts
from gfcr.types import Cost, RolloutBatch, Sample
from tests.heldout import asked, measured

ARMS = {"grpo": 0.5, "dapo": 0.7}


def make_card(arm="grpo", seed=0, **spec):
    return RunCard(
        run_id=f"{arm}-{seed}",
        study="it's a study",
        arm=arm,
        seed=seed,
        spec={"seed": seed, "trainer": {"lr": 0.001}, "strategy": {"name": arm}, **spec},
        tags={"gfcr.task": "chain_sum", "gfcr.model": "demo", "gfcr.filters": "zero_variance"},
    )


def metrics_of(card, step):
    rng = np.random.default_rng([card.seed, step])
    return {
        "heldout/accuracy": (ARMS[card.arm] + 0.01 * card.seed) * step / 5,
        "length/all/mean": float(rng.normal(20, 1)),
        "tokens/rejected:zero_variance": 10.0 * step,
        "engine/forward_passes": 100.0,
        "reward|odd (%)": 1.0,
    }


def result_of(card):
    score = ARMS[card.arm] + 0.01 * card.seed
    return {
        "run_id": card.run_id,
        "strategy": card.arm,
        "status": "finished",
        "updates": 5,
        "wall_s": 9.5,
        "forward_passes": 500.0,
        "r_gen": 0.5,
        "rollout_tokens_per_s": 700.0,
        "heldout": {
            "asked": asked(8),
            "before": measured({f"p{i}": 0.3 for i in range(8)}),
            "after": measured({f"p{i}": score for i in range(8)}),
        },
        "tokens": {"generated": 500, "trained": 400, "aborted": 100, "remainder": 0},
        "curve": [[0, 0, 0.0, 0.3], [5, 500, 9.5, score]],
    }


def batch(step=1):
    """Five rollouts: two trained on, one that is not, two rejected."""
    made = group([1.0, 0.5, 0.0])
    trained = [Sample(rollout=r, advantage_T=np.ones(len(r), np.float32)) for r in made.rollouts]
    return RolloutBatch(
        step=step,
        version=step,
        samples=tuple(trained[:2]),
        groups=(made, group_of([rollout(i, reward=0.0) for i in (3, 4)], rejected="zero_variance")),
        aborted=(),
        cost=Cost(),
        metrics={},
    )


def write_run(path, card, *, tracker=None, steps=range(1, 6), end=True):
    """Writes a run as an experiment does: the folder first, then the tracker."""
    folder = RunFolder(path)
    folder.create(card)
    folder.set_status("running")
    if tracker:
        tracker.start(card, folder=folder.path)
    for step in steps:
        folder.append(step, metrics=metrics_of(card, step))
        if tracker:
            tracker.log(step, metrics_of(card, step))
    if end:
        write_rollouts(folder.rollouts, batch=batch())
        ended.end(folder, status="finished", result=result_of(card))
        if tracker:
            tracker.finish(status="finished", result=result_of(card))
    return folder


def content(uri):
    """Everything a store holds, in comparable form."""
    client = open_client(uri)
    ids = [e.experiment_id for e in client.search_experiments()]
    return sorted(
        (
            run.info.run_id,
            run.info.status,
            sorted(run.data.params.items()),
            sorted(run.data.tags.items()),
            sorted(points(client, run)),
            sorted((f.path, f.file_size) for f in client.list_artifacts(run.info.run_id)),
        )
        for run in client.search_runs(ids)
    )


def points(client, run):
    for key in run.data.metrics:
        for point in client.get_metric_history(run.info.run_id, key):
            yield key, point.step, point.value, point.timestamp
