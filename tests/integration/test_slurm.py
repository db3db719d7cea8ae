"""Studies as jobs of submitit: its local executor, and a Slurm whose commands are scripts."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfcr import experiment, sweep
from gfcr.config import as_dict
from gfcr.errors import ConfigError, GfcrError
from gfcr.launch.base import Job
from gfcr.launch.slurm import Slurm
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import is_locked
from tests.commands import gfcr
from tests.launchers import launched, values_of
from tests.pages import command_of

pytestmark = pytest.mark.timeout(600)

SLOW = {"name": "dry", "max_steps": 30, "save_every": 1, "train_s": 0.2}
"""Six seconds at least: not over before the test has acted on it."""
LONG = {"trainer": SLOW, "seeds": [0]}


def load(folder: Path, **changes: Any) -> sweep.Study:
    arms = {"grpo": {"strategy": {"name": "grpo", "group_size": 2}}}
    values = values_of(folder / "runs", launcher={"name": "slurm", "cluster": "local"}, arms=arms)
    return sweep.from_values({**values, **changes}, where="t")


def job_of(trial: sweep.Trial) -> Job:
    return Job(name=trial.name, config=as_dict(trial.config), folder=trial.folder)


def until(ready: Callable[[], Any], *, seconds: float = 120) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def processes(pattern: str) -> list[int]:
    found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def updates(folder: Path) -> int:
    return len([*folder.glob("rollouts/*.parquet")])


def test_jobs_have_the_results_of_runs_here_and_one_that_fails_stops_no_other(
    tmp_path: Path,
) -> None:
    fails = {"never": {"strategy": {"name": "dapo", "max_rounds": 1}}}
    arms = {"grpo": {"strategy": {"name": "grpo", "group_size": 2}}, **fails}
    begun: list[str] = []
    study = load(tmp_path, arms=arms, baseline="grpo", seeds=[0])
    ends = {e.trial.config.name: e for e in sweep.run(study, begin=lambda t: begun.append(t.name))}
    assert {arm: e.status for arm, e in ends.items()} == {"grpo": "finished", "never": "failed"}
    assert "max_rounds" in str(ends["never"].problem)
    assert sorted(begun) == sorted(e.trial.name for e in ends.values())
    here = experiment.run(load(tmp_path / "here", seeds=[0]).trials[0].config)
    assert here["tokens"] == ends["grpo"].result["tokens"]


@pytest.mark.whole
def test_a_job_that_is_pre_empted_is_queued_again_and_its_trial_resumes(tmp_path: Path) -> None:
    (trial,) = load(tmp_path, **LONG).trials
    told: list[int] = []

    def pre_empt(job: Job) -> None:
        tasks = processes(f"submitit.core._submit {trial.folder}")
        if not told and updates(job.folder) > 3 and tasks:
            told.append(updates(job.folder))
            os.kill(tasks[0], signal.SIGUSR2)

    with closing(launched(Slurm(cluster="local"), [job_of(trial)], watch=pre_empt)) as running:
        (end,) = running
    assert told and end.result["status"] == "finished", end.result
    assert 0 < end.result["resumed_from"] < 30
    here = experiment.run(load(tmp_path / "here", **LONG).trials[0].config)
    assert here["tokens"] == end.result["tokens"]


@pytest.mark.whole
def test_interrupted_it_leaves_no_process_and_goes_on_later(tmp_path: Path) -> None:
    (trial,) = load(tmp_path, **LONG).trials

    def interrupt(job: Job) -> None:
        if updates(job.folder) > 3:
            raise KeyboardInterrupt

    launcher = Slurm(cluster="local")
    running = launched(launcher, [job_of(trial)], watch=interrupt)
    with pytest.raises(KeyboardInterrupt), closing(running):
        next(running)
    assert not is_locked(trial.folder)
    until(lambda: not processes(f"(submitit|gfcr.launch.child).*{trial.folder}"), seconds=20)
    assert RunFolder(trial.folder).status in ("paused", "running")
    with closing(launched(launcher, [job_of(trial)])) as running:
        (end,) = running
    assert end.result["status"] == "finished" and end.result["resumed_from"] > 0


COMMANDS = {
    "sbatch": """for script; do :; done
cp "$script" "$FAKE/script"
SLURM_JOB_ID=77 SLURM_NTASKS=1 setsid bash "$FAKE/script" > "$FAKE/log" 2>&1 &
echo Submitted batch job 77""",
    "srun": """while [ "${1#-}" != "$1" ]; do
case "$1" in --output|--error) shift;; esac
shift; done
SLURM_JOB_ID=77 exec "$@\"""",
    "sacct": "echo 'JobID|State|NodeList'; echo '77|RUNNING|here'",
    "scancel": "exit 0",
}


def test_the_page_s_job_of_slurm_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, words in COMMANDS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{words}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(tmp_path))
    arms = {"grpo": {"strategy": {"name": "grpo", "group_size": 2}}}
    values = values_of(tmp_path / "runs", arms=arms, seeds=[0])
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    sweeps = command_of("docs/scale-out.md", holding="slurm")[1:]
    more = ("launcher.minutes=90", "launcher.options={qos: high}", "--json")
    done = gfcr(*sweeps, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + (tmp_path / "log").read_text()
    asked = (tmp_path / "script").read_text()
    for line in ("--partition=gpu", "--time=90", "--cpus-per-task=8", "--gpus-per-node=1"):
        assert f"#SBATCH {line}\n" in asked, asked
    assert "#SBATCH --qos=high\n" in asked and "#SBATCH --job-name=" in asked


def test_what_a_cluster_does_not_take_is_said(tmp_path: Path) -> None:
    (trial,) = load(tmp_path, seeds=[0]).trials
    with pytest.raises(GfcrError, match=r"grpo/0 was not taken by cluster=slurm"):
        list(launched(Slurm(), [job_of(trial)]))
    of_gres = Slurm(options={"gres": "gpu:1"})._parameters(job_of(trial))
    assert of_gres["slurm_gres"] == "gpu:1" and "gpus_per_node" not in of_gres
    with pytest.raises(ConfigError, match=r"options=.*finite numbers"):
        Slurm(options={"mem_gb": float("inf")})
    with pytest.raises(ConfigError, match=r"launcher\.cluster=local has neither"):
        Slurm(cluster="local", options={"qos": "high"})
