"""The command line on the fake engine: JSON alone on stdout, exit codes, messages, resume."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from gfcr import registry
from tests.cases import over
from tests.commands import gfcr
from tests.launchers import HERE

EXPERIMENT: dict[str, Any] = {
    "study": "t",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 4, "save_every": 1},
    "tracking": {"name": "local"},
    "prompts": 4,
    "evaluation": {"prompts": 8},
}


def _file(folder: Path, **changes: Any) -> Path:
    path = folder / "experiment.yaml"
    values = {**EXPERIMENT, "folder": str(folder / "runs"), **changes}
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def _started(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A process of its own."""
    command = [sys.executable, "-m", "gfcr", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def _trained(folder: Path) -> list[list[str]]:
    """Ids of the trained rollouts of each update, from the rollout files."""
    files = sorted((folder / "rollouts").glob("update-*.parquet"))
    rows = [pq.read_table(f, columns=["rollout_id", "trained_tokens"]).to_pylist() for f in files]
    return [[r["rollout_id"] for r in update if r["trained_tokens"]] for update in rows]


@pytest.mark.slow
def test_run_prints_one_json_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import atexit\natexit.register(print, 'bye')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    done = _started("run", _file(tmp_path), "--json", "trainer.max_steps=3")
    assert done.returncode == 0 and done.stderr.endswith("bye\n"), done.stderr
    result = json.loads(done.stdout)
    assert result["updates"] == 3 and result["tokens"]["remainder"] == 0
    assert result["tokens"]["generated"] == sum(
        n for name, n in result["tokens"].items() if name not in ("generated", "remainder")
    )
    for key in ("run_id", "strategy", "wall_s", "rollout_tokens_per_s", "r_gen"):
        assert result[key]
    assert result["r_gen"] <= 1
    assert 0 <= result["heldout"]["before"]["accuracy"] <= 1


def test_the_same_command_again_reports_the_finished_run(tmp_path: Path) -> None:
    old = tmp_path / "[old]"
    old.mkdir()
    file = _file(old)
    first = json.loads(gfcr("run", file, "--json").stdout)
    again = gfcr("run", file, "--json")
    assert json.loads(again.stdout) == first and "already finished" in again.stderr
    assert gfcr("run", file).stdout.endswith(f"run folder: {first['folder']}\n")
    fresh = json.loads(gfcr("run", file, "--json", "--fresh").stdout)
    assert fresh["tokens"] == first["tokens"] and fresh["wall_s"] != first["wall_s"]


BAD = {
    "unknown part": (["strategy=dpao"], ["dpao", "dapo"]),
    "unknown filter": (["strategy.filters.advantag.kind=rloo"], ["advantag", "advantage"]),
    "unknown key": (["trainer.max_step=3"], ["max_step", "max_steps"]),
    "unknown top key": (["promts=3"], ["promts", "prompts"]),
    "wrong type": (["prompts=many"], ["prompts", "many", "int"]),
    "wrong choice": (["strategy.filters.advantage.kind=best"], ["best", "rloo"]),
    "out of range": (["sampling.temperature=-1"], ["temperature", "-1"]),
    "no part": (["strategy=4"], ["strategy=4", "{'name': 'grpo'}"]),
    "no value": (["prompts"], ["prompts", "KEY=VALUE"]),
    "missing model": (["engine=vllm", "model=no/such/model"], ["no/such/model", "demo"]),
    "no file": (["task=dataset", "task.path=no.jsonl"], ["no.jsonl"]),
}


@over("case", BAD)
def test_bad_input_exits_with_2_and_says_what_to_do(case: str, tmp_path: Path) -> None:
    overrides, words = BAD[case]
    done = gfcr("run", _file(tmp_path), *overrides)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and not done.stdout
    for word in words:
        assert word in done.stderr


def test_an_unknown_command_names_the_nearest() -> None:
    done = _started("swep")
    assert done.returncode == 2 and "Did you mean 'sweep'" in done.stderr


def test_a_batch_that_never_fills_exits_with_2_and_keeps_its_rollouts(tmp_path: Path) -> None:
    knobs = {"name": "dapo", "max_rounds": 2}
    done = gfcr("run", _file(tmp_path, strategy=knobs), "--json")
    assert done.returncode == 2 and "max_rounds" in json.loads(done.stdout)["error"]
    assert "Traceback" not in done.stderr
    (file,) = (tmp_path / "runs").rglob("update-*.parquet")
    assert pq.read_table(file).num_rows == 2 * 4 * 8


def test_a_dataset_without_its_answer_column_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"question": "1+1=", "reply": "2"}\n' * 4)
    task = {"name": "dataset", "path": str(data), "prompt_column": "question"}
    done = gfcr("run", _file(tmp_path, task=task))
    assert done.returncode == 2
    assert "answer" in done.stderr and "reply" in done.stderr and str(data) in done.stderr


def test_an_empty_dataset_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("")
    task = {"name": "dataset", "path": str(data), "prompt_column": "question"}
    done = gfcr("run", _file(tmp_path, task=task))
    assert done.returncode == 2 and str(data) in done.stderr and "Traceback" not in done.stderr


@pytest.mark.whole
@over("strategy", ["grpo", "april", "repo", "treerl"])
def test_killed_and_run_again_it_trains_on_the_same_rollouts(strategy: str, tmp_path: Path) -> None:
    """Killed with SIGKILL in the middle; the fake engine makes the comparison exact."""
    steps = "trainer.max_steps=16"
    changes = {"task": {"name": "chain_sum", "num_train": 16}, "strategy": strategy}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole = _file(tmp_path / "a", **changes)
    killed = _file(tmp_path / "b", **changes)
    reference = gfcr("run", whole, steps, "--json")
    assert reference.returncode == 0, reference.stderr
    command = [sys.executable, "-m", "gfcr", "run", str(killed), steps, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for_updates(tmp_path / "b", num=5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    resumed = gfcr("run", killed, steps, "--json")
    assert resumed.returncode == 0, resumed.stderr
    ours, theirs = json.loads(resumed.stdout), json.loads(reference.stdout)
    assert ours["resumed_from"] >= 4 and ours["tokens"] == theirs["tokens"]
    assert [p[:2] for p in ours["curve"]] == [p[:2] for p in theirs["curve"]]
    folders = [Path(result["folder"]) for result in (ours, theirs)]
    assert _trained(folders[0]) == _trained(folders[1])
    lines = [(f / "metrics.jsonl").read_text().splitlines() for f in folders]
    steps_seen = [[json.loads(line)["step"] for line in text] for text in lines]
    assert steps_seen[0] == steps_seen[1]


def _wait_for_updates(folder: Path, *, num: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(folder.glob("runs/*/*/*/rollouts/update-*.parquet"))) < num:
        assert time.monotonic() < deadline, "the run made no updates"
        time.sleep(0.005)


@pytest.mark.slow
def test_sweep_keeps_finished_trials(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    arms = {"grpo": {"strategy": "grpo"}, "rloo": {"strategy": "rloo"}}
    values = {
        **EXPERIMENT,
        "launcher": HERE,
        "folder": str(tmp_path / "runs"),
        "arms": arms,
        "seeds": [0, 1],
    }
    study.write_text(yaml.safe_dump(values, sort_keys=False))
    first = json.loads(gfcr("sweep", study, "--json").stdout)
    assert [t["status"] for t in first["trials"]] == ["finished"] * 4
    again = json.loads(gfcr("sweep", study, "--json").stdout)
    assert [t["status"] for t in again["trials"]] == ["cached"] * 4
    assert again["trials"][3]["tokens"] == first["trials"][3]["tokens"]


@pytest.mark.slow
def test_sweep_runs_the_arms_that_are_asked_for(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    arms = {name: {"strategy": name} for name in ("grpo", "rloo", "dr_grpo")}
    arms |= {"a=1,b=2": {"strategy": "grpo"}}
    values = {**EXPERIMENT, "launcher": HERE, "folder": str(tmp_path / "runs"), "arms": arms}
    study.write_text(yaml.safe_dump(values, sort_keys=False))
    some = json.loads(gfcr("sweep", study, "--arms", "dr_grpo,grpo", "--json").stdout)
    assert [t["arm"] for t in some["trials"]] == ["grpo", "dr_grpo"]
    rest = json.loads(gfcr("sweep", study, "--json").stdout)
    assert [t["status"] for t in rest["trials"]] == ["cached", "finished", "cached", "finished"]
    one = json.loads(gfcr("sweep", study, "--arms", "a=1,b=2", "--json").stdout)
    assert [t["arm"] for t in one["trials"]] == ["a=1,b=2"]
    wrong = gfcr("sweep", study, "--arms", "grpo,rlo")
    assert wrong.returncode == 2 and "Did you mean 'rloo'?" in wrong.stderr
    halving = ("evaluation.every=1", "stopping={name: halving, first: 1, factor: 2}")
    stopping = gfcr("sweep", study, "--arms", "grpo", *halving)
    assert stopping.returncode == 2 and "stopping=null" in stopping.stderr


@pytest.mark.slow
def test_sweep_goes_on_when_a_trial_fails(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    arms = {"never": {"strategy": {"name": "dapo", "max_rounds": 1}}, "grpo": {"strategy": "grpo"}}
    values = {**EXPERIMENT, "folder": str(tmp_path / "runs"), "arms": arms, "baseline": "grpo"}
    study.write_text(yaml.safe_dump(values, sort_keys=False))
    done = gfcr("sweep", study, "--json")
    trials = json.loads(done.stdout)["trials"]
    assert done.returncode == 1 and [t["status"] for t in trials] == ["failed", "finished"]
    assert "max_rounds" in trials[0]["error"]


def test_bad_arm_is_found_before_anything_runs(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    arms = {"grpo": {"strategy": "grpo"}, "odd": {"strategy": "dpao"}}
    values = {**EXPERIMENT, "folder": str(tmp_path / "runs"), "arms": arms}
    study.write_text(yaml.safe_dump(values, sort_keys=False))
    done = gfcr("sweep", study)
    assert done.returncode == 2 and "dpao" in done.stderr and not (tmp_path / "runs").exists()


def test_list_and_show() -> None:
    listed = json.loads(gfcr("list", "--json").stdout)
    assert {"strategy", "generate", "filter", "control", "replay"} <= set(listed)
    cells = listed.pop("cells")
    assert cells["F5.7"] == {
        "branch": "Filter",
        "title": "Training-signal construction",
        "parts": sum(e["cell"] == "F5.7" for entries in listed.values() for e in entries),
    }
    (dead,) = [e for e in listed["filter"] if e["name"] == "zero_variance"]
    assert (dead["cell"], dead["paper"], dead["origin"]) == ("F5.6", "2503.14476", "P")
    assert all(entry["summary"] for entries in listed.values() for entry in entries)
    shown = json.loads(gfcr("show", "dapo", "--json").stdout)
    assert "2503.14476" in shown["doc"] and shown["knobs"]["group_size"]["default"] == 8
    assert {p["address"] for p in shown["parts"]} >= {"generate", "filters.zero_variance"}
    assert os.linesep in gfcr("show", "refill").stdout


def test_what_there_is_fits_a_screen_and_says_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = gfcr("list").stdout.splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    words = " ".join(lines).replace(",", "").split()
    listed = json.loads(gfcr("list", "--json").stdout)
    assert {entry["name"] for entry in listed["strategy"]} <= {*words}
    for kind in registry.KINDS:
        assert words[words.index(kind) - 1] == str(len(listed[kind])), kind
    for more in ("gfcr list --all", "gfcr list strategy", "gfcr show NAME"):
        assert more in " ".join(words)
    whole = gfcr("list", "--all").stdout
    assert all(e["name"] in whole for k in ("filter", "engine") for e in listed[k])


@pytest.mark.slow
def test_a_study_file_ranks_the_runs_it_asks_for(tmp_path: Path) -> None:
    """Runs that an earlier version of the file made do not stand in for today's."""
    uri = f"sqlite:///{tmp_path}/store.db"
    study = tmp_path / "study.yaml"
    arms = {"grpo": {"strategy": "grpo"}, "rloo": {"strategy": "rloo"}}
    tracking = {"name": "mlflow", "uri": uri}
    place = {"launcher": HERE, "folder": str(tmp_path / "runs"), "tracking": tracking}
    values = {**EXPERIMENT, **place, "arms": arms}
    for steps in (2, 3):
        values["trainer"] = {"name": "dry", "max_steps": steps}
        study.write_text(yaml.safe_dump(values, sort_keys=False))
        done = gfcr("sweep", study, "--json")
        assert done.returncode == 0, done.stderr
    made = {t["arm"]: t["tokens"]["generated"] for t in json.loads(done.stdout)["trials"]}
    board = json.loads(gfcr("leaderboard", study, "--uri", uri, "--json").stdout)
    assert not board["excluded"]
    assert {row["arm"]: row["cost"]["generated_tokens"] for row in board["rows"]} == made


@pytest.mark.slow
def test_a_sweep_ends_with_its_leaderboard(tmp_path: Path) -> None:
    """Once a trial has a score, today's or an earlier one; what fails there fails no sweep."""
    uri = f"sqlite:///{tmp_path}/store.db"
    study = tmp_path / "study.yaml"
    place = {"launcher": HERE, "folder": str(tmp_path / "runs")}
    arms = {"grpo": {"strategy": "grpo"}, "rloo": {"strategy": "rloo"}}
    tracking = {"name": "mlflow", "uri": uri}
    study.write_text(yaml.safe_dump({**EXPERIMENT, **place, "tracking": tracking, "arms": arms}))
    swept = [gfcr("sweep", study).stdout for _ in range(2)]
    board = gfcr("leaderboard", study, "--uri", uri).stdout.rstrip()
    assert "rloo" in board and [text.partition("\n")[0] for text in swept] == [
        "2 finished",
        "2 cached",
    ]
    for text in swept:
        assert board in text and text.index(board) < text.index("HTML report: ")
    assert board in gfcr("sweep", study, "--arms", "rloo").stdout
    report = tmp_path / "runs" / "t" / "leaderboard.html"
    report.unlink()
    for spoil in (report.mkdir, lambda: (tmp_path / "store.db").write_text("no store")):
        spoil()
        done = gfcr("sweep", study)
        assert done.returncode == 0 and "no leaderboard: " in done.stdout, done.stderr
    told = json.loads(gfcr("sweep", study, "--json").stdout)
    assert {*told} == {"study", "baseline", "metric", "notes", "trials", "decisions"}


def test_it_tells_its_version() -> None:
    done = gfcr("--version")
    assert done.returncode == 0 and done.stdout.startswith("gfcr 0.")
