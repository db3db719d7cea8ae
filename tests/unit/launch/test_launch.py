"""Trials as processes of this machine: parallel, stopped, orphaned, run twice at once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gfcr import sweep
from gfcr.config import as_dict
from gfcr.errors import ConfigError, GfcrError
from gfcr.launch import jigsaw
from gfcr.launch.base import Job, Launcher
from gfcr.launch.jigsaw import Jigsaw
from gfcr.launch.local import Local
from gfcr.launch.process import TrialProcess
from gfcr.launch.ray import (
    Ray,
    _result,  # pyright: ignore[reportPrivateUsage]
)
from gfcr.launch.remote import look_at, run_trial, stamp
from gfcr.launch.slurm import Slurm
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import is_locked
from tests.cases import over
from tests.launchers import launched, values_of

ARMS = {name: {} for name in "ab"}
LONG = {"name": "dry", "max_steps": 5000, "save_every": 1}
TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="none is left to be lent")


def jobs(folder: Path, **changes: Any) -> list[Job]:
    values = values_of(folder, **{"arms": ARMS, "seeds": [0], **changes})
    study = sweep.from_values(values, where="t")
    return [Job(name=t.name, config=as_dict(t.config), folder=t.folder) for t in study.trials]


def made(folder: Path) -> int:
    """Files of updates below a folder, from which others may be removed meanwhile."""
    names = [name for _, _, files in os.walk(folder) for name in files]
    return sum(n.startswith("update-") and n.endswith(".parquet") for n in names)


def until(ready: Callable[[], Any], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def trial_processes(folder: Path) -> list[int]:
    command = ["pgrep", "-f", f"gfcr.launch.child .*{folder}"]
    return list(map(int, subprocess.run(command, capture_output=True, text=True).stdout.split()))


def test_a_folder_that_a_node_lacks_is_named(tmp_path: Path) -> None:
    job, *_ = jobs(tmp_path)
    for folder in (job.folder.parent, tmp_path / "here"):
        result = run_trial(job, cwd=tmp_path / "here", since=0)
        assert result["status"] == "failed" and f"{folder} is not on this node" in result["error"]
        job.folder.parent.mkdir(parents=True, exist_ok=True)


@over("launcher", [Local(parallel=1), Ray()])
def test_a_trial_that_another_sweep_begins_at_the_same_moment_is_left_until_it_ends(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [{"status": "failed", "type": "FolderInUse"}, {"status": "finished"}]
    locks = iter([False, True] if isinstance(launcher, Local) else [True])
    monkeypatch.setattr("gfcr.launch.process.is_locked", lambda folder: next(locks, False))
    trial = SimpleNamespace(wait=lambda seconds: answers.pop(0))
    monkeypatch.setattr("gfcr.launch.local.TrialProcess", lambda job, **how: trial)
    cluster = SimpleNamespace(
        nodes=lambda: [{"Alive": True, "Resources": {"CPU": 1.0}}],
        wait=lambda tasks, timeout: (tasks, []),
        get=lambda ref: answers.pop(0),
    )
    monkeypatch.setattr("gfcr.launch.ray._connected", lambda address: nullcontext(cluster))
    monkeypatch.setattr(Ray, "_begin", lambda self, ray, job, group: object())
    (end,) = launched(launcher, jobs(tmp_path)[:1])
    assert end.result == {"status": "finished"}


def test_a_node_begins_a_job_once_and_it_is_watched_from_then_on(tmp_path: Path) -> None:
    one, other = jobs(tmp_path)
    one.folder.parent.mkdir(parents=True)
    stamps, told = {job.name: stamp(job) for job in (one, other)}, list[str]()

    def look() -> None:
        tell = {w: lambda job, w=w: told.append(f"{w} {job.name}") for w in ("begin", "watch")}
        look_at([one, other], stamps=stamps, **tell)

    look()
    one.folder.with_name(f"{one.folder.name}.yaml").write_text("")
    look()
    look()
    assert told == ["begin a/0", "watch a/0", "watch a/0"]


def test_what_a_task_raises_is_told_as_what_it_is_and_a_lost_node_as_lost() -> None:
    class RayError(Exception): ...

    class RayTaskError(RayError):
        cause = OSError("the disk is full")

    def get(ref: Exception) -> None:
        raise ref

    ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(**locals()))
    failed, lost = (_result(ray, ref)["error"] for ref in (RayTaskError(), RayError("gone")))
    assert failed == "its task failed: OSError: the disk is full"
    assert "its node was lost" in lost and "gone" in lost


@pytest.mark.slow
def test_a_trial_that_starts_over_does_so_once_whichever_nodes_are_lost(tmp_path: Path) -> None:
    job = replace(jobs(tmp_path)[0], fresh=True)
    job.folder.parent.mkdir(parents=True)
    submitted = {"cwd": Path.cwd(), "since": stamp(job)}
    first, again = (run_trial(job, **submitted) for _ in range(2))
    assert first["status"] == "finished" and first == again
    assert not [p.name for p in job.folder.parent.iterdir() if ".old-" in p.name]


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_several_at_a_time_and_every_one_answers(tmp_path: Path) -> None:
    begun: list[str] = []
    together = 0

    def watch(job: Job) -> None:
        nonlocal together
        together = max(together, len(trial_processes(tmp_path)))

    running = launched(Local(), jobs(tmp_path), begin=lambda j: begun.append(j.name), watch=watch)
    ends = {end.job.name: end.result["status"] for end in running}
    assert ends == {"a/0": "finished", "b/0": "finished"} and begun == ["a/0", "b/0"]
    assert together == 2
    assert {RunFolder(j.folder).card().tags["gfcr.cores"] for j in jobs(tmp_path)} == {"1"}


@TWO_CORES
@pytest.mark.whole
@over("scheduler", ["look_ahead", "unmanaged"])
def test_trials_that_are_lent_cores_become_what_they_are_alone(
    tmp_path: Path, scheduler: Any
) -> None:
    launcher = Jigsaw(scheduler=scheduler)
    lent, alone = jobs(tmp_path / "lent"), jobs(tmp_path / "alone")
    ends = {end.job.name: end.result for end in launched(launcher, lent)}
    base = {end.job.name: end.result for end in launched(Local(parallel=1), alone)}
    assert {r["status"] for r in ends.values()} == {"finished"} and ends.keys() == base.keys()
    for name, result in ends.items():
        for key in ("tokens", "heldout", "updates"):
            assert result[key] == base[name][key]
    assert {RunFolder(j.folder).card().tags["gfcr.cores"] for j in lent} == {"lent"}
    kinds = {name: [each.kind for each in launcher.lent if each.trial == name] for name in ends}
    for own in kinds.values():
        assert own[:3] == ["start", "evaluate", "decode"] and "train" in own
    both = [s for each in launcher.lent for s in each.stretches if s.other is not None]
    assert bool(both) and {s.share for s in both} == {None if scheduler == "unmanaged" else 0.5}
    again = {end.job.name: end.result["status"] for end in launched(launcher, lent)}
    assert set(again.values()) == {"finished"}, "nothing is left to ask for cores"


@TWO_CORES
@pytest.mark.whole
def test_a_sweep_that_lends_cores_goes_on_after_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    values = values_of(tmp_path / "runs", arms=ARMS, seeds=[0], trainer={**LONG, "max_steps": 60})
    file.write_text(yaml.safe_dump({**values, "launcher": {"name": "jigsaw"}}, sort_keys=False))
    command = [sys.executable, "-m", "gfcr", "sweep", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: made(tmp_path) > 4)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not trial_processes(tmp_path), seconds=30)
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert made(tmp_path) == 2 * 60


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.slow
def test_a_trial_that_is_killed_leaves_its_cores_to_the_other_and_goes_on_later(
    tmp_path: Path,
) -> None:
    """The one that held a lease when it died is asked for nothing more."""
    both = jobs(tmp_path, trainer={**LONG, "max_steps": 24})
    killed = list[int]()

    def watch(job: Job) -> None:
        if not killed and made(Path(both[0].folder)) > 2:
            killed.extend(trial_processes(both[0].folder))
            for process in killed:
                os.kill(process, signal.SIGKILL)

    ends = {end.job.name: end.result["status"] for end in launched(Jigsaw(), both, watch=watch)}
    assert killed and ends == {"a/0": "failed", "b/0": "finished"}
    again = {end.job.name: end.result for end in launched(Jigsaw(), both)}
    assert {result["status"] for result in again.values()} == {"finished"}
    assert made(tmp_path) == 2 * 24, "nothing is lost"


def test_what_cores_cannot_be_lent_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for changes, told in (
        ({"budget": {"seconds": 60}}, "budget.seconds=60"),
        ({"schedule": {"name": "lag"}}, "schedule.name=lag"),
    ):
        with pytest.raises(ConfigError, match=told):
            list(launched(Jigsaw(), jobs(tmp_path, **changes)))
    with monkeypatch.context() as patch, pytest.raises(ConfigError, match="and here is one"):
        patch.setattr(os, "sched_getaffinity", lambda _: {5})
        list(launched(Jigsaw(), jobs(tmp_path)))
    monkeypatch.setattr(jigsaw, "accelerated", lambda: True)
    with pytest.raises(ConfigError, match="without a GPU"):
        list(launched(Jigsaw(), jobs(tmp_path, engine={"name": "vllm"})))


@pytest.mark.slow
def test_who_stops_listening_stops_the_trials(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def watch(job: Job) -> None:
        if made(tmp_path) > 2:
            raise Enough

    running = launched(Local(parallel=2), jobs(tmp_path, trainer=LONG), watch=watch)
    with pytest.raises(Enough), closing(running):
        list(running)
    assert not trial_processes(tmp_path)


@pytest.mark.slow
def test_trials_end_with_a_sweep_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    values = values_of(tmp_path / "runs", arms=ARMS, seeds=[0], trainer=LONG)
    file.write_text(yaml.safe_dump(values, sort_keys=False))
    command = [sys.executable, "-m", "gfcr", "sweep", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: made(tmp_path) > 2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not trial_processes(tmp_path), seconds=30)


@pytest.mark.slow
def test_the_second_process_of_a_trial_waits_for_the_first(tmp_path: Path) -> None:
    job, *_ = jobs(tmp_path, trainer={"name": "dry", "max_steps": 60})
    one = TrialProcess(job)
    until(lambda: made(tmp_path) > 2)
    other = TrialProcess(job)
    answers = [process.wait(120) for process in (one, other)]
    assert answers[0] == answers[1] and answers[0] is not None
    assert answers[0]["status"] == "finished" and answers[0]["resumed_from"] == 0
    assert "already finished" in (job.folder.parent / f"{job.folder.name}.log").read_text()


@TWO_CORES
@pytest.mark.whole
@over("launcher", [Local(parallel=1), Jigsaw(scheduler="serial")])
def test_a_trial_that_another_sweep_runs_is_left_until_it_ends(
    launcher: Launcher, tmp_path: Path
) -> None:
    first, second = jobs(tmp_path, trainer={"name": "dry", "max_steps": 150})
    other = TrialProcess(first)
    until(lambda: made(tmp_path) > 2)
    held: list[bool] = []
    ends = list(
        launched(launcher, [first, second], begin=lambda job: held.append(is_locked(job.folder)))
    )
    assert [end.job.name for end in ends] == ["b/0", "a/0"]
    assert held == [False, False]  # however long the other sweep takes
    assert [end.result["status"] for end in ends] == ["finished"] * 2
    other.stop()


@pytest.mark.slow
def test_a_process_that_dies_leaves_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, *_ = jobs(tmp_path, trainer=LONG)
    process = TrialProcess(job)
    until(lambda: made(tmp_path) > 1)
    for pid in trial_processes(tmp_path):
        os.kill(pid, signal.SIGKILL)
    result = process.wait(60)
    assert result is not None and result["status"] == "failed"
    said = Path(result["log"]).read_text().strip().splitlines()[-1]
    assert "exit code -9" in result["error"] and said and said in result["error"]
    monkeypatch.setattr("gfcr.launch.process.command", lambda *_, **__: ["sh", "-c", "kill -9 $$"])
    silent = TrialProcess(job).wait(60)
    assert silent is not None and silent["error"].endswith("-9 and no answer.")


def test_a_launcher_s_keys_may_be_given_alone(tmp_path: Path) -> None:
    for given, name in (({"parallel": 3}, Local), ("ray", Ray), ({"name": "ray", "cpus": 2}, Ray)):
        study = sweep.from_values(values_of(tmp_path, arms=ARMS, launcher=given), where="t")
        assert type(study.launcher) is name
    assert sweep.from_values(values_of(tmp_path, arms=ARMS), where="t").launcher == Local()


def test_no_place_for_a_trial_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="parallel=0"):
        Local(parallel=0)
    (tmp_path / "t").touch()
    for launcher in (Local(), Slurm(cluster="local")):
        with pytest.raises(GfcrError, match=r"cannot be written to .*: give `folder=` a place"):
            next(launched(launcher, jobs(tmp_path)))
