"""MLflow for real: SQLite stores and a server that is killed. Three minutes on two busy cores."""

import json
import shutil
import sqlite3
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partialmethod
from multiprocessing import get_context

import pytest
from mlflow import MlflowClient

from gfcr import leaderboard
from gfcr.errors import ConfigError, GfcrError, StoreError
from gfcr.leaderboard import report
from gfcr.tracking import ended, mlflow_client
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.mlflow import Mlflow
from gfcr.tracking.mlflow_client import open_client
from gfcr.tracking.mlflow_store import read_runs
from gfcr.tracking.names import encode_name
from tests import stores
from tests.integration.mlflow_runs import ARMS, content, make_card, metrics_of, result_of, write_run
from tests.integration.mlflow_server import Server
from tests.sample import sample
from tests.stores import sqlite


def steps_logged(uri, name="length/all/mean"):
    (record,) = read_runs(uri, series=[name])
    return [step for step, _ in record.series[name]]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A finished study of two arms and three seeds, tracked live: (store, run folders)."""
    path = tmp_path_factory.mktemp("study")
    folders = [
        write_run(path / arm / str(seed), make_card(arm, seed), tracker=Mlflow(uri=sqlite(path)))
        for arm in ARMS
        for seed in range(3)
    ]
    return sqlite(path), folders


def test_runs_are_nested_study_arm_seed_and_read_page_by_page(study, monkeypatch):
    uri, folders = study
    client = open_client(uri)
    experiment = client.get_experiment_by_name("it's a study")
    runs = {run.info.run_id: run for run in client.search_runs([experiment.experiment_id])}
    kinds = Counter(run.data.tags["gfcr.kind"] for run in runs.values())
    assert kinds == {"study": 1, "arm": 2, "seed": 6}
    assert all(run.info.status == "FINISHED" for run in runs.values())
    for run in runs.values():
        parent = runs.get(run.data.tags.get("mlflow.parentRunId"))
        above = parent.data.tags["gfcr.kind"] if parent else None
        assert above == {"study": None, "arm": "study", "seed": "arm"}[run.data.tags["gfcr.kind"]]
    assert len(folders) == 6
    pages = {"search_experiments": {"order_by": ["creation_time ASC"]}, "search_runs": {}}
    for name, how in pages.items():  # MLflow's own pages hold a thousand
        small = partialmethod(getattr(MlflowClient, name), max_results=1, **how)
        monkeypatch.setattr(MlflowClient, name, small)
    assert len(read_runs(study[0])) == len(study[1])


def test_a_run_reads_back_with_params_metrics_and_files(study):
    uri, _ = study
    record = read_runs(uri, study="it's a study", series=["length/all/mean", "reward|odd (%)"])[0]
    card = make_card("dapo", 0)
    assert (record.run_id, record.arm, record.seed) == ("dapo-0", "dapo", 0)
    assert record.params == {"seed": "0", "trainer.lr": "0.001", "strategy.name": "dapo"}
    assert record.series["length/all/mean"] == tuple(
        (step, metrics_of(card, step)["length/all/mean"]) for step in range(1, 6)
    )
    assert record.series["reward|odd (%)"] == tuple((step, 1.0) for step in range(1, 6))
    assert record.result == result_of(card)
    client = open_client(uri)
    seeds = client.search_runs(
        [client.get_experiment_by_name("it's a study").experiment_id],
        "tags.`gfcr.run_id` = 'dapo-0'",
    )
    held = {f.path for f in client.list_artifacts(seeds[0].info.run_id)}
    assert held == {"result.json", "rollouts", "rollouts.json", "spec.yaml"}


def test_the_leaderboard_is_rebuilt_from_the_store_alone_byte_for_byte(study, tmp_path):
    uri, folders = study
    built = leaderboard.build(uri, baseline="grpo")
    text = json.dumps(leaderboard.to_dict(built))
    assert [row.arm for row in built.rows] == ["dapo", "grpo"]
    assert [row.rank for row in built.rows] == [1, 2]
    assert built.rows[0].cost.forward_passes == 500
    assert json.dumps(leaderboard.to_dict(leaderboard.build(uri, baseline="grpo"))) == text
    # Another store, filled later and in another order from the run folders.
    later = Mlflow(uri=sqlite(tmp_path, "later.db"))
    for folder in reversed(folders):
        later.upload(folder.path)
    again = leaderboard.build(later.uri, baseline="grpo")
    assert json.dumps(leaderboard.to_dict(again)) == text


def test_the_leaderboard_reads_nothing_but_the_store(tmp_path):
    """Every folder and file but MLflow's own is deleted: same bytes, in each form."""
    uri = sqlite(tmp_path)
    for arm in ARMS:
        for seed in range(2):
            folder = tmp_path / "runs" / arm / str(seed)
            write_run(folder, make_card(arm, seed), tracker=Mlflow(uri=uri))
    before = renderings(uri, tmp_path)
    shutil.rmtree(tmp_path / "runs")
    assert {file.name for file in tmp_path.iterdir()} == {"mlflow.db", "mlartifacts"}
    assert renderings(uri, tmp_path) == before


def renderings(uri, path):
    board = leaderboard.build(uri, baseline="grpo", target=0.6)
    page = report.write(board, path=path / "page.html")
    told = json.dumps(leaderboard.to_dict(board), allow_nan=False)
    texts = page.read_text(), told, leaderboard.to_csv(board)
    page.unlink()
    return texts


def edit(uri, statement, *values):
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as store:
        assert store.execute(statement, values).rowcount > 0


def files(path, name):
    return sorted((path / "mlartifacts").rglob(name))


def edit_result(path, change):
    (file,) = [f for f in files(path, "result.json") if '"dapo-2"' in f.read_text()]
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


RUN = "(select run_uuid from tags where key = 'gfcr.run_id' and value = 'dapo-2')"
CHANGED = "result.json was changed after the run ended"
EDITS = {
    "score": (
        lambda uri, path: edit_result(path, lambda r: r["heldout"]["after"].update(accuracy=0.99)),
        CHANGED,
    ),
    "seed": (
        lambda uri, path: edit(
            uri, f"update tags set value = '7' where key = 'gfcr.seed' and run_uuid = {RUN}"
        ),
        CHANGED,
    ),
    "seed that is none": (
        lambda uri, path: edit(
            uri, f"update tags set value = 'x' where key = 'gfcr.seed' and run_uuid = {RUN}"
        ),
        CHANGED,
    ),
    "broken file": (
        lambda uri, path: [
            f.write_text("{") for f in files(path, "result.json") if '"dapo-2"' in f.read_text()
        ],
        "the store is damaged: result.json cannot be read",
    ),
    "deleted file": (
        lambda uri, path: [
            f.unlink() for f in files(path, "result.json") if '"dapo-2"' in f.read_text()
        ],
        "result.json is missing",
    ),
}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A small finished study in a store of its own, to be copied and edited."""
    path = tmp_path_factory.mktemp("untouched")
    for arm in ARMS:
        for seed in range(3):
            folder = path / "runs" / arm / str(seed)
            tracker = Mlflow(uri=sqlite(path), artifacts="results")
            write_run(folder, make_card(arm, seed), tracker=tracker)
    assert not leaderboard.build(sqlite(path), baseline="grpo").excluded
    return path


@pytest.mark.whole
@pytest.mark.parametrize("name", sample(EDITS, always=["score", "deleted file"]))
def test_an_edited_store_is_found_out_and_the_run_left_out(untouched, tmp_path, name):
    change, reason = EDITS[name]
    copy = tmp_path / "copy"
    shutil.copytree(untouched, copy)
    uri = f"sqlite:///{copy / 'mlflow.db'}"
    for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
        edit(
            uri, f"update {table} set {column} = replace({column}, ?, ?)", str(untouched), str(copy)
        )
    change(uri, copy)
    board = leaderboard.build(uri, baseline="grpo")
    (excluded,) = board.excluded
    assert reason in excluded.reason
    (dapo,) = [row for row in board.rows if row.arm == "dapo"]
    assert dapo.seeds == (0, 1) and dapo.score.value == pytest.approx(0.705)


def test_uploading_what_is_there_changes_nothing(study):
    uri, folders = study
    before = content(uri)
    for folder in folders:
        Mlflow(uri=uri).upload(folder.path)
    assert content(uri) == before


def test_a_resumed_run_goes_on_in_its_mlflow_run_without_repeating_points(tmp_path):
    uri, card = sqlite(tmp_path), make_card()
    folder = write_run(tmp_path / "run", card, tracker=Mlflow(uri=uri), steps=range(5), end=False)
    mark = folder.mark()
    folder.append(5, metrics=metrics_of(card, 5))  # made after the checkpoint, and never mirrored
    folder.back_to(mark)
    before = only_seed(uri).info.run_id
    write_run(tmp_path / "run", card, tracker=Mlflow(uri=uri), steps=range(5, 8))
    assert steps_logged(uri) == list(range(8)) and only_seed(uri).info.run_id == before
    (record,) = read_runs(uri)
    assert record.status == "finished"
    Mlflow(uri=uri).upload(folder.path)
    assert steps_logged(uri) == list(range(8))


def only_seed(uri):
    (run,) = open_client(uri).search_runs(["1"], "tags.`gfcr.kind` = 'seed'")
    return run


@pytest.mark.parametrize("kept", [pytest.param(0, marks=pytest.mark.whole), 1, 3])
def test_a_killed_runs_points_are_those_of_its_folder(tmp_path, kept):
    uri, card = sqlite(tmp_path), make_card()
    folder = RunFolder(tmp_path / "run")
    folder.create(card)
    tracker, mark = Mlflow(uri=uri), folder.mark()
    tracker.start(card, folder=folder.path)
    for step in range(5):
        folder.append(step, metrics=metrics_of(card, step))
        tracker.log(step, metrics_of(card, step))
        if step + 1 == kept:
            mark = folder.mark()
    # Killed here, and resumed from the checkpoint of `kept`; other seconds, other values.
    folder.back_to(mark)
    again = Mlflow(uri=uri)
    again.start(card, folder=folder.path)
    for step in range(kept, 6):
        made = {name: value + 77.0 for name, value in metrics_of(card, step).items()}
        folder.append(step, metrics=made)
        again.log(step, made)
    folder.write_result(result_of(card))
    folder.set_status("finished")
    again.finish(status="finished", result=result_of(card))
    client, run = open_client(uri), only_seed(uri)
    points = {
        (key, p.step): [p.value]
        for key in run.data.metrics
        for p in client.get_metric_history(run.info.run_id, key)
    }
    held = {
        (encode_name(name), line.step): [value]
        for line in folder.metrics()
        for name, value in line.metrics.items()
    }
    count = sum(len(client.get_metric_history(run.info.run_id, k)) for k in run.data.metrics)
    assert points == held and count == len(held)
    assert [r.status for r in read_runs(uri)] == ["finished"]


UNUSABLE = {
    "no database": (
        lambda path: path.write_text("hello, I am no database at all"),
        "not a database",
    ),
    "an empty file": (lambda path: path.touch(), "not hold the tables"),
    "another database": (
        lambda path: sqlite3.connect(path).execute("CREATE TABLE t (x)"),
        "not hold the tables",
    ),
    "a folder": (lambda path: path.mkdir(), "cannot be used"),
    "older tables": (
        lambda path: [
            shutil.copy(stores.empty(), path),
            sqlite_do(path, "UPDATE alembic_version SET version_num = 'ab'"),
        ],
        "mlflow db upgrade",
    ),
}


def sqlite_do(path, words):
    with sqlite3.connect(path) as connection:
        connection.execute(words)


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_store_that_cannot_be_read_is_named_and_left_as_it_is(tmp_path, case, monkeypatch):
    monkeypatch.setattr(mlflow_client, "_BUSY_S", 0.3)
    path = tmp_path / "bad.db"
    UNUSABLE[case][0](path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=UNUSABLE[case][1]) as caught:
        leaderboard.build(f"sqlite:///{path}")
    assert str(path) in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize("place", ["file/mlflow.db", "folder.db", "text.db"])
def test_a_store_that_cannot_be_written_is_said_at_once(tmp_path, place, capfd):
    (tmp_path / "file").touch()
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "text.db").write_text("hello, I am no database at all")
    began = time.monotonic()
    write_run(tmp_path / "run", make_card(), tracker=Mlflow(uri=f"sqlite:///{tmp_path / place}"))
    assert time.monotonic() - began < 5
    words = capfd.readouterr().err
    assert words.count("is not taking records") == 1 and str(tmp_path / place) in words
    assert RunFolder(tmp_path / "run").status == "finished"


def test_a_run_whose_files_are_gone_hides_no_other(tmp_path):
    uri = sqlite(tmp_path)
    for seed in range(2):
        write_run(tmp_path / str(seed), make_card("grpo", seed), tracker=Mlflow(uri=uri))
    (first, *_) = open_client(uri).search_runs(["1"], "tags.`gfcr.seed` = '0'")
    sqlite_do(
        tmp_path / "mlflow.db",
        f"UPDATE runs SET artifact_uri = 'nowhere://x' WHERE run_uuid = '{first.info.run_id}'",
    )
    records = read_runs(uri)
    assert sorted(bool(r.damage) for r in records) == [False, True]
    assert [r.status for r in records] == ["finished"] * 2


def test_a_run_started_over_replaces_the_one_before_it(tmp_path):
    uri, card = sqlite(tmp_path), make_card()
    write_run(tmp_path / "first", card, tracker=Mlflow(uri=uri), steps=range(1, 9), end=False)
    second = write_run(tmp_path / "second", card, tracker=Mlflow(uri=uri))
    assert steps_logged(uri) == [1, 2, 3, 4, 5]
    Mlflow(uri=uri).upload(second.path)
    assert steps_logged(uri) == [1, 2, 3, 4, 5]


def test_a_killed_run_is_left_out_of_the_leaderboard(tmp_path):
    uri = sqlite(tmp_path)
    write_run(tmp_path / "run", make_card(), tracker=Mlflow(uri=uri), end=False)
    (excluded,) = leaderboard.build(uri).excluded
    assert "killed" in excluded.reason


def test_long_and_many_params_are_taken(tmp_path):
    many = {f"knob_{i}": i for i in range(250)}
    card = make_card(prompt="x" * 9000, knobs=many)
    write_run(tmp_path / "run", card, tracker=Mlflow(uri=sqlite(tmp_path)))
    (record,) = read_runs(sqlite(tmp_path))
    assert {k: v for k, v in record.params.items() if k.startswith("knobs.")} == {
        f"knobs.{name}": str(value) for name, value in many.items()
    }
    assert record.params["prompt"].endswith("see spec.yaml")


def test_results_only_leaves_rollouts_in_the_folder(tmp_path):
    uri = sqlite(tmp_path)
    write_run(tmp_path / "run", make_card(), tracker=Mlflow(uri=uri, artifacts="results"))
    files = {path for run in content(uri) for path, _ in run[-1]}
    assert files == {"result.json", "spec.yaml"}
    with pytest.raises(ConfigError, match=r"artifacts='none'"):
        Mlflow(artifacts="none")


def track(path, uri, seed):
    card = make_card("grpo" if seed % 2 else "dapo", seed)
    write_run(path / str(seed), card, tracker=Mlflow(uri=uri))


@pytest.mark.whole
def test_processes_that_start_together_share_their_parents(tmp_path):
    uri = f"sqlite:///{tmp_path / 'new.db'}"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(track, [tmp_path] * 2, [uri] * 2, range(2)))
    kinds = Counter(dict(run[3])["gfcr.kind"] for run in content(uri))
    assert kinds == {"study": 1, "arm": 2, "seed": 2}
    assert [record.status for record in read_runs(uri)] == ["finished"] * 2


def test_a_store_that_does_not_exist_is_named_and_not_made(tmp_path):
    with pytest.raises(StoreError, match=r"there is no file .*nothing\.db"):
        leaderboard.build(f"sqlite:///{tmp_path / 'nothing.db'}")
    assert not (tmp_path / "nothing.db").exists()


def test_an_unknown_study_says_which_there_are(study):
    with pytest.raises(ConfigError, match="Did you mean 'it's a study'"):
        leaderboard.build(study[0], study="its a study")


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.mark.whole
def test_a_run_outlives_its_server_and_is_uploaded_later_once(server, tmp_path, capfd):
    card, tracker = make_card(), Mlflow(uri=server.uri)
    folder = RunFolder(tmp_path / "run")
    folder.create(card)
    tracker.start(card, folder=folder.path)
    for step in range(1, 6):
        if step == 3:
            server.kill()
        folder.append(step, metrics=metrics_of(card, step))
        began = time.monotonic()
        tracker.log(step, metrics_of(card, step))
        assert time.monotonic() - began < 30
    ended.end(folder, status="finished", result=result_of(card))
    tracker.finish(status="finished", result=result_of(card))
    assert capfd.readouterr().err.count("gfcr: MLflow at") == 1
    with pytest.raises(GfcrError, match="start the server"):
        tracker.upload(folder.path)

    server.start()
    first = tracker.upload(folder.path)
    filled = content(server.uri)
    assert tracker.upload(folder.path) == first
    assert content(server.uri) == filled
    assert steps_logged(server.uri) == [1, 2, 3, 4, 5]
    (row,) = leaderboard.build(server.uri).rows
    assert row.score.value == pytest.approx(0.5)
