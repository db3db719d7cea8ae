"""Studies on a real Ray cluster of two nodes (processes of this machine).

Mostly waiting: 18 s of its own CPU time, minutes on a machine that is busy.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfcr import experiment, sweep
from gfcr.config import as_dict
from gfcr.engine.server_child import PARENT
from gfcr.engine.server_process import THROUGH
from gfcr.errors import ConfigError, GfcrError
from gfcr.experiment.source import Pause
from gfcr.launch.base import Job
from gfcr.launch.ray import Ray
from gfcr.launch.ray_server import Bundles
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import locked
from tests.integration.tiny_model import tiny_chain_sum
from tests.launchers import launched
from tests.pages import command_of

pytestmark = pytest.mark.timeout(600)

STORE_BYTES = 80_000_000
STUDY: dict[str, Any] = {
    "study": "t",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 4, "save_every": 1},
    "tracking": {"name": "local"},
    "prompts": 4,
    "evaluation": {"prompts": 8},
    "arms": {"grpo": {"strategy": "grpo"}, "rloo": {"strategy": "rloo"}},
    "seeds": [0, 1],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that runs nothing and a node for one trial at a time."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    before = signal.getsignal(signal.SIGTERM)
    yield made
    made.shutdown()
    signal.signal(signal.SIGTERM, before)  # Ray leaves one of its own


def load(folder: Path, cluster: Any, **changes: Any) -> sweep.Study:
    launcher = {"name": "ray", "address": cluster.address}
    values = {**STUDY, "folder": str(folder / "runs"), "launcher": launcher, **changes}
    return sweep.from_values(values, where="t")


def until(ready: Callable[[], Any], *, seconds: float = 180) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def trial_processes(folder: Path) -> list[int]:
    """Processes whose command line names a run folder below `folder`."""
    found = subprocess.run(
        ["pgrep", "-f", f"gfcr.launch.child .*{folder}"], capture_output=True, text=True
    )
    return [int(pid) for pid in found.stdout.split()]


def whole(trial: sweep.Trial, folder: Path) -> dict[str, Any]:
    """The trial's result when it is run here, in one piece."""
    return experiment.run(replace(trial.config, folder=str(folder)))


def test_a_study_on_two_nodes_has_the_results_of_runs_on_this_machine(
    cluster: Any, tmp_path: Path
) -> None:
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    begun: list[str] = []
    study = load(tmp_path / "ray", cluster)
    with ExitStack() as another_sweep:
        another_sweep.enter_context(locked(study.trials[0].folder))

        def begin(trial: sweep.Trial) -> None:
            begun.append(trial.name)
            if len(begun) == 3:
                another_sweep.close()

        ends = sweep.run(study, begin=begin)
    cluster.remove_node(node)
    assert [e.status for e in ends] == ["finished"] * 4
    assert sorted(begun) == sorted(e.trial.name for e in ends)
    assert begun[-1] == study.trials[0].name, "it is left to the sweep that runs it"
    for end in ends:
        here = whole(end.trial, tmp_path / "here")
        assert here["tokens"] == end.result["tokens"] and here["heldout"] == end.result["heldout"]


@pytest.mark.whole
def test_a_lost_node_costs_no_finished_trial_and_its_trial_goes_on_elsewhere(
    cluster: Any, tmp_path: Path
) -> None:
    study = load(tmp_path, cluster, seeds=[0], trainer={**STUDY["trainer"], "max_steps": 200})
    jobs = [Job(name=t.name, config=as_dict(t.config), folder=t.folder) for t in study.trials]
    doomed = cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    killed: list[str] = []

    def watch(job: Job) -> None:
        under_way = [len(list(j.folder.glob("rollouts/*.parquet"))) > 3 for j in jobs]
        if not killed and all(under_way):
            killed.append(job.name)
            cluster.remove_node(doomed, allow_graceful=False)

    with closing(launched(study.launcher, jobs, watch=watch)) as running:
        ends = {end.job.name: end.result for end in running}
    assert killed, "both trials were running when a node was lost"
    assert {r["status"] for r in ends.values()} == {"finished"}, ends
    resumed = sorted(r["resumed_from"] for r in ends.values())
    assert resumed[0] == 0 < resumed[1], "one ran on, the other resumed"
    for trial in study.trials:
        assert whole(trial, tmp_path / "here")["tokens"] == ends[trial.name]["tokens"]
    assert not trial_processes(tmp_path)


@pytest.mark.whole
def test_interrupted_it_leaves_no_process_and_goes_on_later(cluster: Any, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    trainer = {**STUDY["trainer"], "max_steps": 2000}
    evaluation = {"prompts": 2, "every": 20}
    values = {**STUDY, "folder": str(tmp_path / "runs"), "seeds": [0], "trainer": trainer}
    values["evaluation"] = evaluation
    file.write_text(yaml.safe_dump(values, sort_keys=False))
    command = [sys.executable, "-m", "gfcr", "sweep", str(file), "--launcher", "ray", "--json"]
    command.append(f"launcher.address={cluster.address}")

    def hear() -> None:  # also where the tests are a background job's
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=hear
    )
    until(lambda: len(list(tmp_path.rglob("update-*.parquet"))) > 3)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 130 and "To go on: gfcr sweep" in words
    until(lambda: not trial_processes(tmp_path), seconds=10)
    (card,) = tmp_path.rglob("run.json")
    made = len(list(RunFolder(card.parent).rollouts.glob("*.parquet")))
    overrides = ["launcher=ray", f"launcher.address={cluster.address}"]
    study = sweep.load(file, overrides=overrides)
    first = next(t for t in study.trials if t.folder == card.parent)
    later = Pause(of="updates", at=made + 1)
    job = Job(name=first.name, config=as_dict(first.config), folder=first.folder, until=later)
    with closing(launched(study.launcher, [job])) as running:
        (end,) = running
    assert end.result["status"] == "paused" and end.result["resumed_from"] >= made - 2 > 0


@pytest.mark.whole
def test_a_trial_that_fails_is_not_run_again_and_stops_no_other(
    cluster: Any, tmp_path: Path
) -> None:
    arms = {"never": {"strategy": {"name": "dapo", "max_rounds": 1}}, "grpo": {"strategy": "grpo"}}
    ends = sweep.run(load(tmp_path, cluster, arms=arms, baseline="grpo", seeds=[0]))
    assert [e.status for e in ends] == ["failed", "finished"]
    assert "max_rounds" in str(ends[0].problem)
    log = next(tmp_path.rglob("never/*.log")).read_text()
    assert log.count("starting the engine") == 1


SERVER = """
import json, os, sys, time
from gfcr.process.worker import follow
follow(int(os.environ["GFCR_SERVER_PARENT"]))
told = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "GFCR_SERVER_HOST", "OWN")}
with open(sys.argv[1], "w") as file:
    json.dump({"pid": os.getpid(), **told}, file)
time.sleep(600)
"""


@pytest.mark.whole
def test_a_server_runs_on_its_bundle_and_ends_with_who_stands_for_it(
    cluster: Any, tmp_path: Path
) -> None:
    import ray

    node = cluster.add_node(num_cpus=0, num_gpus=1, object_store_memory=STORE_BYTES)
    ray.init(address=cluster.address, namespace="tests", log_to_driver=False)
    try:
        group = ray.util.placement_group([{"CPU": 1}, {"GPU": 1}], name="trial")
        assert group.wait(60)
        bundles = Bundles(address=cluster.address, namespace="tests", group="trial", cpus=0, gpus=1)
        own = bundles.environment(exchange=tmp_path) | {PARENT: str(os.getpid()), "OWN": "yes"}
        told = tmp_path / "told"
        line = [*json.loads(own[THROUGH]), "0", sys.executable, "-c", SERVER, str(told)]
        with subprocess.Popen(line, env=os.environ | own | {"CUDA_VISIBLE_DEVICES": ""}) as stand:
            found = json.loads(until(lambda: told.exists() and told.read_text()))
            assert found["CUDA_VISIBLE_DEVICES"] == "0" and found["OWN"] == "yes"
            assert found["GFCR_SERVER_HOST"] == ray.util.get_node_ip_address()
            assert stand.poll() is None
            stand.kill()
        until(lambda: not Path(f"/proc/{found['pid']}").exists(), seconds=30)
    finally:
        ray.shutdown()
        cluster.remove_node(node)


@pytest.mark.whole
def test_a_trial_brings_its_servers(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=2, object_store_memory=STORE_BYTES)
    engine = {"name": "pool", "size": 2, "max_length": 64, "start_timeout_s": 300}
    changes = {
        "model": tiny_chain_sum(tmp_path / "model"),
        "engine": engine,
        "seeds": [0],
        "arms": {"grpo": {"strategy": "grpo"}},
        "sampling": {"max_tokens": 16},
        "evaluation": {"prompts": 8, "sampling": {"max_tokens": 16}},
    }
    launcher = {"name": "ray", "address": cluster.address, "server_cpus": 1}
    (end,) = sweep.run(load(tmp_path / "ray", cluster, **changes, launcher=launcher))
    assert end.status == "finished", end.problem
    cluster.remove_node(node)
    here = whole(end.trial, tmp_path / "here")
    assert end.result["tokens"]["remainder"] == 0 == here["tokens"]["remainder"]
    for when, found in here["heldout"].items():
        scores = found.pop("per_prompt", {})
        assert end.result["heldout"][when].pop("per_prompt", {}) == pytest.approx(scores), when
    assert end.result["heldout"] == here["heldout"]
    assert not list(tmp_path.rglob("*.servers")), "the weights' folder goes with the run"


def test_a_cluster_that_is_not_there_is_named() -> None:
    with pytest.raises(GfcrError, match=r"launcher\.address='127.0.0.1:1'"):
        list(launched(Ray(address="127.0.0.1:1"), []))


def test_bad_settings_say_what_is_allowed() -> None:
    bad = {"give a number from 0": {"cpus": -1}, "give one > 0": {"cpus": 0}}
    for words, changes in {**bad, "give an integer from 0": {"retries": -1}}.items():
        with pytest.raises(ConfigError, match=words):
            Ray(**changes)


@pytest.mark.whole
def test_the_page_s_command_answers_with_one_json_object(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=8, num_gpus=1, object_store_memory=STORE_BYTES)
    values = {**STUDY, "folder": str(tmp_path / "runs"), "seeds": [0]}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    words = command_of("docs/scale-out.md", holding="ray launcher.cpus=8")[1:]
    command = [sys.executable, "-m", "gfcr", *words, "--json"]
    there = os.environ | {"RAY_ADDRESS": cluster.address}  # what `auto` finds
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=there
    )
    cluster.remove_node(node)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [t["status"] for t in data["trials"]] == ["finished"] * 2
    assert "One seed: no interval, and no verdict but `inconclusive`." in data["notes"]
