"""An arm's run in MLflow has the means of its seeds, whatever happens to these."""

from dataclasses import replace

import pytest

from gfcr import leaderboard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.mlflow import Mlflow
from gfcr.tracking.mlflow_client import open_client, read_points
from gfcr.tracking.mlflow_store import read_runs
from gfcr.tracking.names import HELDOUT
from tests.integration.mlflow_runs import content, make_card, metrics_of, write_run
from tests.stores import sqlite


def runs_of(uri, kind):
    client = open_client(uri)
    (experiment,) = [e for e in client.search_experiments() if e.name == "it's a study"]
    return client.search_runs([experiment.experiment_id], f"tags.`gfcr.kind` = '{kind}'")


def curve(uri, name=HELDOUT):
    (arm,) = runs_of(uri, "arm")
    points = read_points(open_client(uri), arm, keys=[name])
    assert all(len(values) == 1 for values in points.values())
    return {step: value for (_, step), (value,) in points.items()}


def mean(name, *, seeds, steps):
    cards = [make_card(seed=seed) for seed in seeds]
    means = {at: sum(metrics_of(c, at)[name] for c in cards) / len(cards) for at in steps}
    return pytest.approx(means)


def write(path, uri, seed, **more):
    tracker = Mlflow(uri=uri)
    return write_run(path / f"{seed}", make_card(seed=seed), tracker=tracker, **more)


def test_an_arm_has_means_and_curves_over_the_seeds_that_have_ended(tmp_path):
    uri = sqlite(tmp_path)
    for seeds in ([0], [0, 1], [0, 1, 2]):
        write(tmp_path, uri, seeds[-1])
        for name in (HELDOUT, "length/all/mean"):
            assert curve(uri, name) == mean(name, seeds=seeds, steps=range(1, 6))
    write(tmp_path, uri, 3, end=False)
    assert curve(uri) == mean(HELDOUT, seeds=[0, 1, 2], steps=range(1, 6)), "one that runs"
    (arm,) = runs_of(uri, "arm")
    assert arm.data.metrics[HELDOUT] == pytest.approx(0.51)
    assert arm.data.tags["mlflow.note.content"].startswith("Means over seeds 0, 1, 2,")
    assert {s.data.tags["mlflow.parentRunId"] for s in runs_of(uri, "seed")} == {arm.info.run_id}


def test_an_arm_goes_as_far_as_all_of_its_seeds_have_come(tmp_path):
    uri = sqlite(tmp_path)
    write(tmp_path, uri, 0)
    write(tmp_path, uri, 1, steps=range(1, 3))
    assert curve(uri) == mean(HELDOUT, seeds=[0, 1], steps=[1, 2])
    write(tmp_path, uri, 2, steps=())
    assert curve(uri) == mean(HELDOUT, seeds=[0, 1], steps=[1, 2]), "one without a score"
    (before,) = runs_of(uri, "arm")
    # Resumed, to its end: the points that were there stay, in the run where they were.
    folder = write(tmp_path, uri, 1, steps=range(3, 6))
    assert curve(uri) == mean(HELDOUT, seeds=[0, 1], steps=range(1, 6))
    (after,) = runs_of(uri, "arm")
    assert after.info.run_id == before.info.run_id
    held = content(uri)
    Mlflow(uri=uri).upload(folder.path)
    assert content(uri) == held


def test_a_seed_that_is_started_over_or_fails_counts_no_longer(tmp_path):
    uri = sqlite(tmp_path)
    for seed in (0, 1):
        write(tmp_path / "first", uri, seed)
    again = write(tmp_path / "second", uri, 1, steps=range(1, 4), end=False)
    assert curve(uri) == mean(HELDOUT, seeds=[0], steps=range(1, 6))
    RunFolder(again.path).set_status("failed")
    Mlflow(uri=uri).upload(again.path)
    assert curve(uri) == mean(HELDOUT, seeds=[0], steps=range(1, 6))
    write(tmp_path / "second", uri, 1, steps=range(4, 5))
    assert curve(uri) == mean(HELDOUT, seeds=[0, 1], steps=range(1, 5))
    assert len(runs_of(uri, "arm")) == 1 and len(runs_of(uri, "seed")) == 2
    edited = replace(make_card(seed=0, prompts=9), run_id="edited")
    write_run(tmp_path / "edited", edited, tracker=Mlflow(uri=uri))
    assert curve(uri) == mean(HELDOUT, seeds=[0], steps=range(1, 6)), "of the arm as it is now"


def test_an_arm_is_no_trial(tmp_path):
    uri = sqlite(tmp_path)
    for seed in (0, 1):
        write(tmp_path, uri, seed)
    assert [(r.arm, r.seed, r.damage) for r in read_runs(uri)] == [("grpo", 0, ""), ("grpo", 1, "")]
    assert not leaderboard.build(uri).excluded


def test_runs_have_names_and_their_experiment_opens_on_training_runs(tmp_path):
    uri = sqlite(tmp_path)
    write(tmp_path, uri, 0)
    names = {kind: [run.info.run_name for run in runs_of(uri, kind)] for kind in ("arm", "seed")}
    assert names == {"arm": ["grpo"], "seed": ["grpo / seed 0"]}
    client = open_client(uri)
    kind = "mlflow.experimentKind"
    made = client.get_experiment_by_name("it's a study")
    assert made.tags[kind] == "custom_model_development"
    # One that is there is made to, unless its owner has said what it is.
    for name, given in (("plain", {}), ("chosen", {kind: "genai_development"})):
        client.create_experiment(name, tags=given)
        write_run(tmp_path / name, make_card(), tracker=Mlflow(uri=uri, experiment=name))
        held = client.get_experiment_by_name(name).tags[kind]
        assert held == given.get(kind, "custom_model_development")
