"""`--dry-run`: what a start would do, with its checks, and nothing written."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfcr.tracking.lock import locked
from gfcr.values.overrides import apply_overrides, dropped
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
    "evaluation": {"prompts": 8, "every": 1},
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "it.yaml"
    path.write_text(yaml.safe_dump({**EXPERIMENT, "folder": str(folder / "runs"), **changes}))
    return path


def files(folder: Path) -> dict[str, int]:
    return {str(f): f.stat().st_mtime_ns for f in sorted(folder.rglob("*"))}


def would(command: str, *words: object, folder: Path, code: int = 0) -> Any:
    """What it says, having written nothing."""
    before = files(folder)
    done = gfcr(command, *words, "--dry-run", "--json")
    assert done.returncode == code, done.stderr
    assert files(folder) == before
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_run_would_start_resume_be_shown_or_start_over(tmp_path: Path) -> None:
    file = written(tmp_path)
    started = would("run", file, folder=tmp_path)
    assert started["would"] == "start" and not (tmp_path / "runs").exists()
    assert gfcr("run", file, "--until", "updates=2").returncode == 0
    resumed = would("run", file, folder=tmp_path)
    assert (resumed["would"], resumed["detail"]) == ("resume", "after update 2")
    assert resumed["folder"] == started["folder"]
    result = json.loads(gfcr("run", file, "--json").stdout)
    assert result["resumed_from"] == 2 and result["folder"] == started["folder"]
    assert would("run", file, folder=tmp_path)["would"] == "be shown, finished"
    assert would("run", file, "--fresh", folder=tmp_path)["would"] == "start over"
    assert "would start over (" in gfcr("run", file, "--fresh", "--dry-run").stdout


REFUSED: dict[str, dict[str, Any]] = {
    "evaluation.prompts=8 and the task has 4": {"task": {"name": "chain_sum", "num_heldout": 4}},
    "no such file or folder": {"task": {"name": "dataset", "path": "no.jsonl"}},
    "give no advantages": {"strategy": {"name": "grpo", "filters": {"advantage": None}}},
}


@over("said", REFUSED)
def test_a_run_is_refused_as_a_start_is(said: str, tmp_path: Path) -> None:
    file = written(tmp_path, **REFUSED[said])
    dry, real = gfcr("run", file, "--dry-run"), gfcr("run", file)
    assert dry.returncode == real.returncode == 2
    assert said in dry.stderr and dry.stderr.splitlines()[-1] == real.stderr.splitlines()[-1]


def test_a_run_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path)
    folder = would("run", file, folder=tmp_path)["folder"]
    with locked(folder):
        refused = gfcr("run", file, "--dry-run")
    assert refused.returncode == 2 and "is in use by process" in refused.stderr


def test_a_model_that_is_not_here_is_not_made(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("GFCR_CACHE", str(tmp_path / "cache"))
    changes = {"model": "demo-tail", "engine": {"name": "vllm"}}
    found = would("run", written(tmp_path, **changes), folder=tmp_path)
    assert found["would"] == "start" and "demo-tail would be made" in found["detail"]


def test_a_sweep_says_it_of_each_trial(tmp_path: Path) -> None:
    arms = {"grpo": {"strategy": "grpo"}, "rloo": {"strategy": "rloo"}}
    study = written(tmp_path, launcher=HERE, seeds=[0, 1], arms=arms)
    assert {t["would"] for t in would("sweep", study, folder=tmp_path)["trials"]} == {"start"}
    assert gfcr("sweep", study, "--arms", "rloo", "seeds=[0]").returncode == 0
    told = {t["trial"]: t["would"] for t in would("sweep", study, folder=tmp_path)["trials"]}
    assert told.pop("rloo/0") == "be shown, finished" and set(told.values()) == {"start"}
    short = "task={name: chain_sum, num_heldout: 4}"
    refused = would("sweep", study, short, folder=tmp_path, code=1)["trials"]
    assert [t["would"] for t in refused] == ["be refused", "be refused", "start", "start"]


def test_a_trial_that_a_rule_stopped_would_go_on_where_the_rule_lets_it(tmp_path: Path) -> None:
    arms = {"grpo": {}, **{f"g{n}": {"strategy": {"group_size": n}} for n in (2, 4)}}
    rule = {"name": "halving", "first": 1, "factor": 2}
    shared = {"strategy": {"name": "grpo", "group_size": 6}, "launcher": HERE, "arms": arms}
    study = written(tmp_path, stopping=rule, metric="rollouts/all", baseline="grpo", **shared)
    assert gfcr("sweep", study).returncode == 0
    told = {t["trial"]: t["detail"] for t in would("sweep", study, folder=tmp_path)["trials"]}
    again = "after update 1, if no stopping rule stops it again"
    assert told == {"grpo/0": "", "g2/0": again, "g4/0": again}


@over(
    ("words", "lost"),
    [
        (["strategy.name=dapo"], "strategy.group_size, strategy.filters.advantage.scale"),
        (["strategy=dapo", "strategy.group_size=4"], "strategy.filters.advantage.scale"),
        (["strategy.name=grpo", "trainer.max_steps=2"], ""),
        (["~strategy.group_size"], ""),
    ],
)
def test_what_another_part_s_name_drops_is_told(words: list[str], lost: str) -> None:
    strategy = {"name": "grpo", "group_size": 6, "filters": {"advantage": {"scale": "group"}}}
    values = {**EXPERIMENT, "strategy": strategy}
    assert ", ".join(dropped(values, now=apply_overrides(values, words))) == lost


def test_another_launcher_drops_what_the_file_s_has_and_says_so(tmp_path: Path) -> None:
    file = written(tmp_path, launcher={"name": "local", "parallel": 2}, arms={"a": {}})
    kept, dropped_ = (
        gfcr("sweep", file, "--launcher", name, "--dry-run") for name in ("local", "ray")
    )
    assert kept.returncode == dropped_.returncode == 0 and "left out" not in kept.stderr
    assert "for another part: launcher.parallel." in dropped_.stderr


@over("command", ["run", "sweep"])
def test_a_command_says_which_knobs_its_overrides_drop(command: str, tmp_path: Path) -> None:
    file = written(tmp_path, strategy={"name": "grpo", "group_size": 6})
    several = ["strategy=dapo,grpo", "strategy={name: dapo, max_rounds: 3},grpo"]
    for word in ["strategy.name=dapo"] if command == "run" else several:
        done = gfcr(command, file, word, "--dry-run")
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("for another part: strategy.group_size.") == 1
        assert ("strategy=dapo: left out" in done.stderr) == (command == "sweep")
        assert "strategy=grpo" not in done.stderr, "it keeps them"
    if command == "sweep":
        file = written(tmp_path, launcher={"name": "local", "parallel": 2})
        done = gfcr(command, file, "launcher=ray", "strategy=dapo,grpo", "--dry-run")
        assert done.stderr.count("launcher.parallel") == 1, "of all arms, not of each"
