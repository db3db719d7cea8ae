"""One writer to a folder, however it comes in."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from gfcr import config, experiment, sweep
from gfcr.commands import upload
from gfcr.config import Experiment
from gfcr.errors import FolderInUse, FolderLost
from gfcr.experiment.rehearsal import rehearse
from gfcr.tracking.folder import Mark, RunFolder
from gfcr.tracking.lock import is_alive, is_locked, locked, whose
from gfcr.tracking.mlflow_client import open_client
from gfcr.values import reading
from tests.cases import over
from tests.launchers import values_of

HOLD = """
import sys, time
from gfcr.tracking.lock import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def holder(folder: Path) -> Any:
    """Another process that holds the folder."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".lock")]
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def small(folder: Path, **changes: Any) -> Experiment:
    return config.experiment(values_of(folder, **changes), where="t")


WRITERS: dict[str, Callable[[Experiment], Any]] = {
    "run": experiment.run,
    "run --fresh": lambda config: experiment.run(config, fresh=True),
    "stopped by a rule": lambda config: sweep.decisions.give_up(
        sweep.Trial(config=config, folder=experiment.resolve(config).folder, updates=4), why="t"
    ),
}


@pytest.mark.slow
@over("before", ["nothing", "finished"])
@over("way", WRITERS)
def test_whoever_comes_second_writes_nothing(
    way: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep.decisions, "_PATIENCE_S", 0.0)
    config = small(tmp_path)
    folder = experiment.resolve(config).folder
    if before == "finished":
        experiment.run(config)
    with holder(folder) as process:
        held = tree(tmp_path)
        with pytest.raises(FolderInUse) as caught:
            WRITERS[way](config)
        words = str(caught.value)
        assert str(folder) in words and socket.gethostname() in words
        assert f"process {process.pid} " in words and "run this command again" in words
        assert tree(tmp_path) == held
    assert experiment.run(config)["status"] == "finished"


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path / "run") as process:
        assert is_locked(tmp_path / "run")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with locked(tmp_path / "run"):
            assert is_locked(tmp_path / "run")
    assert not is_locked(tmp_path / "run") and not is_locked(tmp_path / "never")


def test_who_only_looks_refuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[int]()

    def look(file: Any, how: int) -> None:
        flock(file, how)
        if not looks:
            looks.append(how)
            assert not is_locked(tmp_path / "run"), "another looks at the same moment"
            monkeypatch.setattr(time, "sleep", lambda seconds: flock(file, fcntl.LOCK_UN))
            with locked(tmp_path / "run"):
                looks.append(how)

    flock = fcntl.flock
    with locked(tmp_path / "run"):
        pass
    monkeypatch.setattr(fcntl, "flock", look)
    is_locked(tmp_path / "run")
    assert len(looks) == 2


def test_a_folder_is_one_by_whatever_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    with locked(tmp_path / "run"):
        for path in ("run", "link", "run/../run/", tmp_path / "link"):
            with pytest.raises(FolderInUse, match=f"process {os.getpid()} "), locked(path):
                pass


@pytest.mark.slow
def test_a_run_that_runs_is_not_uploaded_and_the_others_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlflow")
    folders = [Path(experiment.run(small(tmp_path, seed=seed))["folder"]) for seed in (0, 1)]
    options = upload.argparse.Namespace(folders=[tmp_path], uri=f"sqlite:///{tmp_path}/m.db")
    own = {"name": "mlflow", "experiment": "mine", "artifacts": "results"}
    (folders[1] / "config.yaml").write_text(reading.write({"tracking": own}))
    with locked(folders[0]):
        outcome = upload.run(options)
    client = open_client(options.uri)
    assert {e.name for e in client.search_experiments()} == {"Default", "mine"}, "as it was tracked"
    assert not client.list_artifacts(outcome.data["uploaded"][str(folders[1])], "rollouts")
    assert outcome.code == 1
    assert list(outcome.data["uploaded"]) == [str(folders[1])]
    assert list(outcome.data["skipped"]) == [str(folders[0])] and "in use" in str(outcome.text)
    assert RunFolder(folders[0]).status == "finished"
    # One whose experiment cannot be read goes to the usual place, and that is said.
    (folders[0] / "config.yaml").write_text("trainr: {}")
    assert upload.run(options).code == 0
    assert f"{folders[0]} goes to the usual experiment of MLflow" in capsys.readouterr().err


@over("beside", [[".lock"], [".lock", ".holder.json"]])
def test_a_run_whose_lock_file_goes_stops_and_goes_on_as_if_nothing_was(
    beside: list[str], tmp_path: Path
) -> None:
    config = small(tmp_path, trainer={"name": "dry", "max_steps": 6, "save_every": 2})
    folder = experiment.resolve(config).folder
    files = [folder.with_name(folder.name + ending) for ending in beside]

    def careless(progress: Any) -> None:
        if progress.update == 3:
            for file in files:
                file.unlink()

    with pytest.raises(FolderLost, match=r"\.lock was removed .*stops here.*run the same command"):
        experiment.run(config, watch=careless)
    records = RunFolder(folder)
    assert records.status == "running" and records.result() is None
    done = experiment.run(config)
    assert (done["status"], done["resumed_from"]) == ("finished", 2)
    steps = [line.step for line in records.metrics() if "rollouts/all" in line.metrics]
    assert steps == sorted(set(steps)) == [1, 2, 3, 4, 5, 6]
    experiment.run(config, fresh=True)  # leaves nothing behind that refuses


RUN = """
import sys
from pathlib import Path
from gfcr import config, experiment
from gfcr.values import reading
def wait(progress):
    if progress.update == 2:
        print("running", flush=True)
        sys.stdin.readline()
experiment.run(config.experiment(reading.read(Path(sys.argv[1])), where="t"), watch=wait)
"""


@pytest.mark.slow
def test_without_its_lock_file_a_run_that_lives_is_not_run_a_second_time(tmp_path: Path) -> None:
    values = values_of(tmp_path / "out")
    config = small(tmp_path / "out")
    (tmp_path / "e.yaml").write_text(json.dumps(values))
    folder = experiment.resolve(config).folder
    command = [sys.executable, "-c", RUN, str(tmp_path / "e.yaml")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "running\n"
        for ending in (".lock", ".holder.json"):
            folder.with_name(folder.name + ending).unlink()
        held = tree(folder)
        for way in WRITERS.values():
            if way is not WRITERS["stopped by a rule"]:
                with pytest.raises(FolderInUse, match=f"process {process.pid} "):
                    way(config)
        assert rehearse(config, fresh=False).would == "be refused"
        assert tree(folder) == held
        _, said = process.communicate("\n")
        assert process.returncode and "FolderLost" in said
    assert experiment.run(config)["status"] == "finished"


@over("held", ["", "[]", '{"status": "running", "by": 3}', '{"status": "running", "by": {}}'])
def test_a_status_that_is_damaged_refuses_no_fresh_start(held: str, tmp_path: Path) -> None:
    config = small(tmp_path)
    folder = Path(experiment.run(config)["folder"])
    (folder / "status.json").write_text(held)
    assert experiment.run(config, fresh=True)["status"] == "finished"


def test_a_process_is_told_from_a_later_one_of_its_number(tmp_path: Path) -> None:
    who = whose()
    assert is_alive(who)
    for other in (
        {"started": 1.0},
        {"started": "1"},
        {"host": "elsewhere"},
        {"pid": 2**22 + 1},
        {"pid": "x"},
    ):
        assert not is_alive({**who, **other})
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        ended = {**who, "pid": process.pid}
    assert not is_alive(ended) and not is_alive({})


def test_a_lock_that_was_removed_is_missed_whoever_has_it_now(tmp_path: Path) -> None:
    with locked(tmp_path / "run") as still_held:
        still_held()
        (tmp_path / "run.lock").unlink()
        records, nothing = RunFolder(tmp_path / "run", guard=still_held), cast(Any, None)
        writes: list[Callable[[], object]] = [
            still_held,
            lambda: records.create(nothing),
            lambda: records.append(1, metrics={}),
            lambda: records.add_rollouts(nothing, spell=str),
            lambda: records.add_corrections(made={}, update=0),
            records.mark,
            lambda: records.back_to(Mark()),
            lambda: records.set_status("running"),
            lambda: records.write_result({}),
        ]
        for write in writes:
            with pytest.raises(FolderLost, match="was removed while"):
                write()
        (tmp_path / "run.holder.json").unlink()
        with holder(tmp_path / "run"):
            for _ in range(2):
                with pytest.raises(FolderLost, match="was removed and made anew"):
                    still_held()
    assert not is_locked(tmp_path / "run")
    with holder(tmp_path / "other"):
        (tmp_path / "other.lock").unlink()
        for _ in range(2):  # whoever is refused leaves the holder's note where it is
            with pytest.raises(FolderInUse), locked(tmp_path / "other"):
                pass
