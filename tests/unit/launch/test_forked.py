"""Trials forked from a warm process: what a fresh one has, says and hears. Nothing heavy loads."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from gfcr import sweep
from gfcr.config import as_dict
from gfcr.launch.base import Job
from gfcr.launch.process import Forked, Forks, TrialProcess, libraries_of
from gfcr.tracking.folder import RunFolder
from tests.launchers import values_of

LONG = {"name": "dry", "max_steps": 5000, "save_every": 1}
STACK = {"engine": {"name": "vllm"}, "trainer": {"name": "trl"}, "tracking": {"name": "mlflow"}}


@pytest.fixture
def forks() -> Iterator[Forks]:
    """Of a process that loads numpy alone."""
    made = Forks(["numpy.random"])
    yield made
    made.close()


def jobs(folder: Path, **changes: Any) -> list[Job]:
    values = values_of(folder, **{"arms": {"a": {}, "b": {}}, "seeds": [0], **changes})
    study = sweep.from_values(values, where="t")
    return [Job(name=t.name, config=as_dict(t.config), folder=t.folder) for t in study.trials]


def until(ready: Callable[[], Any], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def made(folder: Path) -> int:
    return len(list(folder.rglob("update-*.parquet")))


def pid_of(job: Job) -> int:
    holder = job.folder.with_name(f"{job.folder.name}.holder.json")
    until(holder.exists)
    return json.loads(holder.read_text())["pid"]


def log_of(job: Job) -> str:
    return job.folder.with_name(f"{job.folder.name}.log").read_text()


def ended(job: Job, *, forks: Forks | None) -> dict[str, Any]:
    result = TrialProcess(job, forks=forks).wait(120)
    assert result is not None and result["status"] == "finished", result
    return result


def warm_pid(forks: Forks) -> int:
    return forks._warm[0].pid


def test_a_trial_that_ends_before_its_launcher_looks_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a sweep was suspended: both answers of the warm process are there at once."""
    script = "import os, time; os.write(1, b'7\\n3\\n'); time.sleep(60)"
    answers = [sys.executable, "-c", script]
    monkeypatch.setattr("gfcr.launch.process.command", lambda *_, **__: answers)
    forks = Forks(["numpy.random"])
    trial = forks.start([], log=subprocess.DEVNULL)
    assert trial is not None and trial.wait(30) == 3
    forks.close()


@pytest.mark.slow
def test_a_forked_trial_is_what_a_fresh_one_is_and_pauses_when_asked(
    tmp_path: Path, forks: Forks
) -> None:
    job, *_ = jobs(tmp_path, trainer=LONG)
    trial = TrialProcess(job, forks=forks)
    until(lambda: made(tmp_path) > 2)
    said = Path(f"/proc/{pid_of(job)}/cmdline").read_text().replace("\0", " ")
    assert f"-m gfcr.launch.child {warm_pid(forks)} all run {tmp_path}" in said
    assert trial.wait(0.2) is None
    trial.ask_to_end()
    result = trial.wait(60)
    assert result is not None and result["status"] == "paused"
    assert result["interrupted"] == "SIGTERM" and "training a (seed 0)" in log_of(job)


@pytest.mark.whole
def test_deaths_are_told_and_the_next_trial_is_started_fresh(tmp_path: Path, forks: Forks) -> None:
    killed, orphan = jobs(tmp_path, trainer=LONG)
    trials = [TrialProcess(job, forks=forks) for job in (killed, orphan)]
    until(lambda: made(killed.folder) > 1 and made(orphan.folder) > 1)
    os.kill(pid_of(killed), signal.SIGKILL)
    result = trials[0].wait(60)
    assert result is not None and result["status"] == "failed"
    assert "exit code -9" in result["error"] and log_of(killed).splitlines()[-1] in result["error"]
    for warm in forks._warm:
        os.kill(warm.pid, signal.SIGKILL)
    later, *_ = jobs(tmp_path / "later")
    ended(later, forks=forks)
    assert "started fresh: the process to fork from ended, exit code -9" in log_of(later)
    result = trials[1].wait(60)
    assert result is not None and result["status"] in ("failed", "paused")
    until(lambda: RunFolder(orphan.folder).status == "paused", seconds=30)
    trials[1].stop()


@pytest.mark.slow
def test_forked_and_fresh_trials_leave_the_same_records(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (jobs(tmp_path / name)[0] for name in ("forked", "fresh"))
    trial = TrialProcess(one, forks=forks)
    for number in (signal.SIGINT, signal.SIGTERM):  # to the whole group: the launcher's to act on
        os.kill(warm_pid(forks), number)
    results = [trial.wait(60) or {}]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # of which the warm process knows nothing
    trial = TrialProcess(other, forks=forks)
    assert not isinstance(trial._process, Forked)
    results.append(trial.wait(120) or {})
    kept: list[Any] = []
    for job, result in zip((one, other), results, strict=True):
        assert result["status"] == "finished"
        rollouts = {f.name: f.read_bytes() for f in job.folder.rglob("update-*.parquet")}
        kept.append((rollouts, RunFolder(job.folder).card().tags, result["tokens"]))
    assert kept[0][0] and kept[0] == kept[1]


@pytest.mark.whole
def test_code_of_the_user_s_is_read_anew_and_draws_anew_in_each_trial(
    tmp_path: Path, forks: Forks
) -> None:
    code = (
        "from dataclasses import dataclass\nimport numpy\nfrom gfcr.stages import Filter\n\n"
        "DRAWN = numpy.random.random()\n\n"
        "@dataclass(kw_only=True)\nclass Mine(Filter):\n    '''Keeps all.'''\n\n"
        "    def apply(self, group, *, view):\n        return group\n\n"
        "    def metrics(self):\n        return {'edition': EDITION, 'drawn': DRAWN}\n"
    )
    file, seen = tmp_path / "mine.py", list[Any]()
    for edition in ("1.0", "2.0"):
        file.write_text(code.replace("EDITION", edition))
        strategy = {"name": "grpo", "filters": {"mine": {"name": f"{file}:Mine"}}}
        job, *_ = jobs(tmp_path / edition, strategy=strategy)
        ended(job, forks=forks)
        lines = [line.metrics for line in RunFolder(job.folder).metrics()]
        told = next(line for line in lines if "filters.mine/drawn" in line)
        tags = RunFolder(job.folder).card().tags
        seen.append((told, {v for k, v in tags.items() if k.startswith("gfcr.code.")}))
    (one, its_code), (other, others_code) = seen
    assert [one["filters.mine/edition"], other["filters.mine/edition"]] == [1.0, 2.0]
    assert one["filters.mine/drawn"] != other["filters.mine/drawn"] and its_code != others_code


def test_libraries_are_loaded_for_two_trials_that_have_any(tmp_path: Path) -> None:
    assert libraries_of(jobs(tmp_path)) == []
    both = jobs(tmp_path, **STACK)
    loaded = libraries_of(both)
    assert {"vllm", "trl", "mlflow"} <= {name.partition(".")[0] for name in loaded}
    assert [n for n in loaded if n.startswith("gfcr")] == ["gfcr.engine.vllm_worker"]
    assert libraries_of(both[:1]) == []
    both[0].folder.mkdir(parents=True)
    (both[0].folder / "result.json").write_text('{"status": "finished"}')
    assert libraries_of(both) == []


def test_no_trial_is_forked_where_torch_may_know_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch-9.0+cu130.dist-info").mkdir()
    (tmp_path / "torch-9.0+cu130.dist-info" / "METADATA").write_text(
        "Name: torch\nVersion: 9.0+cu130\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert libraries_of(jobs(tmp_path, **STACK)) == []


def test_trials_are_forked_where_there_is_no_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(Distribution, "from_name", missing)
    assert "mlflow.tracking" in libraries_of(jobs(tmp_path, tracking={"name": "mlflow"}))


def test_what_started_a_thread_is_not_forked(tmp_path: Path) -> None:
    code = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    (tmp_path / "mine.py").write_text(code)
    said = subprocess.run(
        [sys.executable, "-m", "gfcr.launch.warm", "mine"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert said.returncode == 1 and "threads" in said.stderr


@pytest.mark.slow
def test_a_trial_ends_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    job, *_ = jobs(tmp_path, trainer=LONG)
    code = (
        "import sys, pickle, time\nfrom gfcr.launch.process import Forks\n"
        "from gfcr.launch.process import TrialProcess\n"
        "trial = TrialProcess(pickle.load(sys.stdin.buffer), forks=Forks(['colorsys']))\n"
        "trial.wait(600)\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert launcher.stdin
    launcher.stdin.write(pickle.dumps(job))
    launcher.stdin.close()
    until(lambda: made(tmp_path) > 1)
    launcher.kill()
    launcher.wait()
    until(lambda: RunFolder(job.folder).status == "paused", seconds=30)
