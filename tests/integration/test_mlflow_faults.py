"""What an MLflow store suffers: a kill while it is made or written to, and a full disk."""

import errno
import os
import sqlite3
import time
from argparse import Namespace
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import pytest

from gfcr.commands import upload
from gfcr.errors import GfcrError, StoreError
from gfcr.tracking import mlflow_client
from gfcr.tracking.mlflow import Mlflow
from gfcr.tracking.mlflow_client import cause, full, open_client, sqlite_file
from gfcr.tracking.mlflow_store import read_runs
from tests import stores
from tests.integration.mlflow_runs import make_card, write_run


def kill(make, file, *, begun, after):
    """Kills a process that makes a store, some seconds after the file `begun` is there."""
    import_module("mlflow.store.tracking.sqlalchemy_store")  # takes longer than making one
    process = get_context("fork").Process(target=make, args=(f"sqlite:///{file}",))
    process.start()
    while not begun.exists():
        assert process.is_alive()
        time.sleep(0.001)
    process.join(after)
    process.kill()
    process.join()


def of_mlflow(uri):
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(uri, "mlruns")


def whole(*seconds):
    return [pytest.param(after, marks=pytest.mark.whole) for after in seconds]


@pytest.mark.parametrize("after", [0.1, *whole(0, 0.2, 0.4, 0.7, 1, 1.5, 2, 3)])
def test_a_store_whose_making_was_killed_is_made_by_the_next(tmp_path, monkeypatch, after):
    folder, file = tmp_path / "a%20b?", Path("mlflow.db")  # as SQLAlchemy would read a path
    folder.mkdir()
    monkeypatch.chdir(folder)
    kill(open_client, file, begun=Path(".mlflow.db.new") / file, after=after)
    assert after or not file.exists()
    assert open_client(f"sqlite:///{file}").create_experiment("x") == "1"
    assert [*Path().iterdir()] == [file] and read_runs(f"sqlite:///{file}") == []
    assert sqlite_file(full(f"sqlite:///{file}")) == folder / file


@pytest.mark.parametrize("after", [0.05, *whole(0, 0.1, 0.2, 0.4, 0.7, 1, 1.5, 2, 3)])
def test_one_that_mlflow_itself_left_half_made_is_made_again(tmp_path, monkeypatch, after):
    monkeypatch.setattr(mlflow_client, "_QUIET_S", 0.0)
    file = tmp_path / "mlflow.db"
    uri = f"sqlite:///{file}"
    kill(of_mlflow, file, begun=file, after=after)
    if after < 0.2:
        with pytest.raises(StoreError, match=r"gfcr upload --uri sqlite:///.*runs/"):
            read_runs(uri)
    assert open_client(uri).create_experiment("x") == "1" and read_runs(uri) == []


def test_a_board_is_read_after_a_kill_in_the_middle_of_writing(tmp_path):
    uri, file = stores.sqlite(tmp_path), tmp_path / "mlflow.db"
    if (child := os.fork()) == 0:
        store = sqlite3.connect(file)
        store.execute("PRAGMA cache_size = 1")
        store.execute("CREATE TABLE big (x)")
        store.executemany("INSERT INTO big VALUES (?)", [("x" * 3000,)] * 50)
        os._exit(1)
    os.waitpid(child, 0)
    assert Path(f"{file}-journal").stat().st_size
    assert read_runs(uri) == []


@contextmanager
def full_disk():
    """No SQLite store may grow, as on a disk without room: it says so in the same words."""
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    def limit(connection, *_):
        connection.execute("PRAGMA max_page_count = 1")

    def free(connection, *_):
        connection.execute("PRAGMA max_page_count = 4294967294")

    event.listen(Pool, "checkout", limit)
    event.listen(Pool, "checkin", free)
    yield
    event.remove(Pool, "checkout", limit)
    event.remove(Pool, "checkin", free)


def test_a_full_disk_is_said_in_a_sentence_and_what_to_do(tmp_path, capfd):
    uri, card = stores.sqlite(tmp_path), make_card(prompt="x" * 5000)
    with full_disk():
        folder = write_run(tmp_path / "run", card, tracker=Mlflow(uri=uri))
        words = capfd.readouterr().err
        assert words.count("\n") == 1 and "database or disk is full" in words and uri in words
        upload = f"`gfcr upload --uri {uri} {folder.path}`"
        assert words.endswith(f"{upload} does.\n") and "; make room on the store's disk)" in words
        assert folder.status == "finished"
        with pytest.raises(GfcrError, match="is full; make room on the store's disk"):
            Mlflow(uri=uri).upload(folder.path)
    Mlflow(uri=uri).upload(folder.path)
    (run,) = read_runs(uri, series=["length/all/mean"])
    assert run.status == "finished" and len(run.series["length/all/mean"]) == 5
    assert not capfd.readouterr().err


def test_files_that_cannot_be_kept_are_said_once(tmp_path, capfd):
    uri = stores.sqlite(tmp_path)
    (tmp_path / "mlartifacts").touch()
    folder = write_run(tmp_path / "run", make_card(), tracker=Mlflow(uri=uri))
    words = capfd.readouterr().err
    assert words.count("\n") == 1 and "mlartifacts" in words
    assert f"Everything is kept in {folder.path}" in words and "goes on" not in words  # it ended
    assert words.endswith(f"`gfcr upload --uri {uri} {folder.path}` does.\n")


def test_want_of_room_is_told_from_other_faults(tmp_path):
    full = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "mlartifacts/x")]
    full += [OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))]
    full += [sqlite3.OperationalError("database or disk is full")]
    assert all(cause(error).endswith("; make room on the store's disk") for error in full)
    remarked = RuntimeError("(raised as a result of Query-invoked autoflush; ...)\ndisk is full\nx")
    assert cause(remarked) == "RuntimeError: disk is full; make room on the store's disk"
    assert "; start the server" in cause(ConnectionError("refused"))
    for words in ("database is locked", "attempt to write a readonly database"):
        told = cause(sqlite3.OperationalError(words))
        assert told.endswith("; end the process that locks it, or allow writing")
    uri, folder = stores.sqlite(tmp_path), write_run(tmp_path / "run", make_card()).path
    client = open_client(uri)
    client.delete_experiment(client.create_experiment(make_card().study))
    with pytest.raises(GfcrError, match=r"tracking\.experiment another name"):
        Mlflow(uri=uri).upload(folder)
    others = ((str(tmp_path), "ALLOW_FILE_STORE=true"), ("mysql+pymysql://u@h/x", "install it"))
    for other, remedy in others:
        with pytest.raises(StoreError, match=remedy):
            read_runs(other)


def test_a_damaged_run_is_told_and_the_others_are_uploaded(tmp_path, capfd):
    uri = stores.sqlite(tmp_path)
    cards = [make_card(seed=seed) for seed in range(2)]
    cards[1].tags["gfcr.baseline"] = "dapo"
    runs = [write_run(tmp_path / n, card) for n, card in zip("ab", cards, strict=True)]
    file = runs[0].updates[1]
    file.write_bytes(file.read_bytes()[:-20])
    sent = upload.run(Namespace(folders=[tmp_path], uri=uri))
    assert sent.code == 1 and [*sent.data["uploaded"]] == [str(runs[1].path)]
    assert str(file) in sent.data["skipped"][str(runs[0].path)]
    assert sent.data["pages"] == {}, "the baseline is not there yet, and nothing to compare with"
    assert "no leaderboard: unknown baseline arm 'dapo'" in capfd.readouterr().err


def test_a_store_that_is_back_at_the_end_has_the_whole_run_and_that_is_said(
    tmp_path, capfd, monkeypatch
):
    (tmp_path / "mlflow.db").mkdir()
    tracker = Mlflow(uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    finish = tracker.finish

    def back(**ended):
        (tmp_path / "mlflow.db").rmdir()
        finish(**ended)

    monkeypatch.setattr(tracker, "finish", back)
    write_run(tmp_path / "run", make_card(), tracker=tracker)
    words = capfd.readouterr().err
    assert words.index("is not taking records") < words.index("has the whole run now")
    assert [r.status for r in read_runs(tracker.uri)] == ["finished"]
