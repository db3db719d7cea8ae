"""What MLflow's pages show beside a run's metrics: datasets, rollouts, the machine."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from gfcr.tracking.folder import RunFolder
from gfcr.tracking.mlflow import Mlflow
from gfcr.tracking.mlflow_client import open_client
from gfcr.tracking.mlflow_store import newest_rollouts, read_runs
from tests.commands import gfcr
from tests.integration.mlflow_runs import content, make_card, write_run
from tests.integration.mlflow_studies import study_file
from tests.stores import sqlite

DIGESTS = {"gfcr.digest.training": "aa11", "gfcr.digest.heldout": "bb22"}


def seed_of(uri):
    client = open_client(uri)
    (run,) = client.search_runs(["1"], "tags.`gfcr.kind` = 'seed'")
    return client.get_run(run.info.run_id)


def with_task(tags=DIGESTS, **task):
    card = make_card(task={"name": "dataset", "split": "train", **task})
    card.tags.update(tags)
    return card


TASKS = {
    "file": ({"path": "questions.jsonl"}, "questions.jsonl", "local", "uri"),
    "hub": ({"path": "openai/gsm8k", "subset": "main"}, "openai/gsm8k", "hugging_face", "path"),
    "made": ({"name": "chain_sum"}, "chain_sum", "code", "tags"),
}


@pytest.mark.parametrize("case", TASKS)
def test_a_run_names_its_datasets_once(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    Path("questions.jsonl").write_text("{}")
    task, name, kind, key = TASKS[case]
    uri, card = sqlite(tmp_path), with_task(heldout_split="test", **task)
    folder = write_run(tmp_path / "run", card, tracker=Mlflow(uri=uri))
    Mlflow(uri=uri).upload(folder.path)
    given = seed_of(uri).inputs.dataset_inputs
    found = {d.tags[0].value: (d.dataset.name, d.dataset.digest) for d in given}
    assert found == {"training": (name, "aa11"), "evaluation": (name, "bb22")} and len(given) == 2
    sources = {d.tags[0].value: json.loads(d.dataset.source) for d in given}
    assert {d.dataset.source_type for d in given} == {kind} and key in sources["training"]
    if case == "hub":
        assert [sources[use]["split"] for use in ("training", "evaluation")] == ["train", "test"]


def test_data_that_changed_while_a_run_stood_are_two_datasets(tmp_path):
    uri, both = sqlite(tmp_path), {**DIGESTS, "gfcr.digest.training": "aa11 | cc33"}
    write_run(tmp_path / "run", with_task(both, path="a/b"), tracker=Mlflow(uri=uri))
    digests = sorted(d.dataset.digest for d in seed_of(uri).inputs.dataset_inputs)
    assert digests == ["aa11", "bb22", "cc33"]


def test_a_few_rollouts_are_a_table_that_is_replaced(tmp_path, monkeypatch):
    uri = sqlite(tmp_path)
    folder = write_run(tmp_path / "run", make_card(), tracker=Mlflow(uri=uri))
    folder.add_corrections(made={"r": (np.ones(2, np.float32), np.ones(2, np.bool_))}, update=1)
    Mlflow(uri=uri).upload(folder.path)
    run = seed_of(uri)
    made = "rollouts/corrections/update-000001.parquet"
    there = open_client(uri).download_artifacts(run.info.run_id, made, str(tmp_path))
    assert Path(there).read_bytes() == (folder.path / made).read_bytes()
    assert len(newest_rollouts(uri, run_id=make_card().run_id)) == 5
    with monkeypatch.context() as small:
        small.setattr("gfcr.tracking.mlflow_store.MOST_BYTES", 1)
        assert newest_rollouts(uri, run_id=make_card().run_id) == [], "nor the folder beside them"
    kept = open_client(uri).download_artifacts(run.info.run_id, "rollouts.json", str(tmp_path))
    table = json.loads(Path(kept).read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert json.loads(run.data.tags["mlflow.loggedArtifacts"]) == [
        {"path": "rollouts.json", "type": "table"}
    ]
    assert [[row[name] for name in ("picked as", "reward", "fate")] for row in rows] == [
        ["best", 1.0, "trained"],
        ["best", 0.5, "trained"],
        *[["rejected", 0.0, "rejected: zero_variance"]] * 2,
    ]
    assert {(row["prompt"], row["tokens"]) for row in rows} == {("1+2=", 4)}
    (record,) = read_runs(uri)
    assert record.damage == ""


def test_mlflow_samples_the_machine_while_a_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.1")
    uri, card, folder = sqlite(tmp_path), make_card(), RunFolder(tmp_path / "run")
    folder.create(card)
    tracker = Mlflow(uri=uri)
    tracker.start(card, folder=folder.path)
    deadline = time.monotonic() + 30
    while "system/cpu_utilization_percentage" not in seed_of(uri).data.metrics:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    tracker.finish(status="paused", result={})
    sampled, run = content(uri), seed_of(uri)
    time.sleep(0.5)
    assert content(uri) == sampled, "and no longer"
    # They are no reason to make the run again when it is resumed, nor updates of it.
    write_run(tmp_path / "run", card, tracker=Mlflow(uri=uri))
    assert seed_of(uri).info.run_id == run.info.run_id
    assert read_runs(uri)[0].damage == ""
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "false")
    silent = Mlflow(uri=uri)
    silent.start(card, folder=folder.path)
    assert silent._monitor is None


@pytest.mark.whole
def test_a_sweep_and_an_upload_keep_the_report_beside_the_studys_run(tmp_path):
    uri = sqlite(tmp_path)
    swept = gfcr("sweep", study_file(tmp_path, uri=uri), cwd=tmp_path)
    assert swept.returncode == 0, swept.stderr
    client = open_client(uri)
    (experiment,) = client.search_experiments(filter_string="name = 'nested'")
    runs = f"/#/experiments/{experiment.experiment_id}/runs?workflowType=machine_learning"
    assert runs in swept.stdout and f"mlflow ui --backend-store-uri {uri}" in swept.stdout
    assert report_of(uri, tmp_path / "1") == (tmp_path / "runs/nested/leaderboard.html").read_text()
    other = sqlite(tmp_path, "other.db")
    sent = gfcr("upload", tmp_path / "runs", "--uri", other, "--json", cwd=tmp_path)
    assert sent.returncode == 0 and [*json.loads(sent.stdout)["pages"]] == ["nested"]
    assert "dr_grpo" in report_of(other, tmp_path / "2")


def report_of(uri, folder):
    folder.mkdir()
    client = open_client(uri)
    ids = [e.experiment_id for e in client.search_experiments()]
    (study,) = client.search_runs(ids, "tags.`gfcr.kind` = 'study'")
    path = client.download_artifacts(study.info.run_id, "leaderboard.html", str(folder))
    return Path(path).read_text()
