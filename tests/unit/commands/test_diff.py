"""`gfcr diff`: every value that differs, resolved, on both sides."""

import json
from pathlib import Path
from typing import Any

import pytest

from gfcr import strategy as strategies
from tests.commands import gfcr

BASE = "model: none\nengine: {name: fake}\ntrainer: {name: dry, max_steps: 4}\nstrategy: grpo\n"
STUDY = (
    "base: base.yaml\narms:\n  a: {strategy: dapo}\n  b: {strategy: {name: dapo, max_rounds: 3}}\n"
)


def told(*words: object, code: int = 0) -> dict[str, Any]:
    """Differing keys with what stands on either side."""
    done = gfcr("diff", *words, "--json")
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    assert found["differ"] == bool(found["differences"])
    return {d["key"]: {side: d[side] for side in "ab" if side in d} for d in found["differences"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


def test_strategies_differ_in_values_and_in_parts() -> None:
    found = told("grpo", "dapo")
    clip = {name: strategies.load(name).loss.clip_high for name in ("grpo", "dapo")}
    assert found["loss.clip_high"] == {"a": clip["grpo"], "b": clip["dapo"]}
    assert "a" not in found["controls.refill"]
    assert found["controls.refill"]["b"]["name"] == "refill"
    assert [*told("dapo", "grpo")["controls.refill"]] == ["a"]
    assert told("grpo", "strategy/grpo") == {}


def test_another_part_at_an_address_is_told_whole(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from gfcr import strategy\n"
        "def own() -> strategy.Strategy:\n"
        "    return strategy.load('grpo', filters={'advantage': {'name': 'split_advantage'}})\n"
    )
    found = told("grpo", f"{own}:own")
    assert found["filters.advantage"]["a"]["name"] == "group_advantage"
    assert found["filters.advantage"]["b"]["name"] == "split_advantage"


def test_arms_experiments_and_strategies(folder: Path) -> None:
    arms = told(f"{folder}/study.yaml:a", f"{folder}/study.yaml:b")
    assert arms == {
        "arm": {"a": "a", "b": "b"},
        "strategy.controls.refill.max_rounds": {"a": 10, "b": 3},
    }
    mixed = told(folder / "base.yaml", f"{folder}/study.yaml:a")
    assert mixed["strategy.name"] == {"a": "grpo", "b": "dapo"}
    assert "b" in mixed["strategy.controls.refill"]
    assert told("grpo", folder / "base.yaml") == {}


def test_the_exit_code_says_so_only_when_asked() -> None:
    assert told("grpo", "dapo", "--exit-code", code=1) and not told("rloo", "rloo", "--exit-code")
    assert "do not differ" in gfcr("diff", "rloo", "rloo").stdout


def test_what_cannot_be_compared_is_refused(folder: Path) -> None:
    whole = gfcr("diff", folder / "study.yaml", "dapo")
    assert whole.returncode == 2 and f"{folder}/study.yaml:a" in whole.stderr
    arm = gfcr("diff", f"{folder}/study.yaml:c", "dapo")
    assert arm.returncode == 2 and "unknown arm 'c'" in arm.stderr
    part = gfcr("diff", "refill", "dapo")
    assert part.returncode == 2 and "unknown strategy 'refill'" in part.stderr
    none = gfcr("diff", f"{folder}/base.yaml:a", "dapo")
    assert none.returncode == 2 and "it has no arm 'a'" in none.stderr


def test_a_run_s_folder_stands_for_its_experiment(folder: Path) -> None:
    none = gfcr("config", folder)
    assert none.returncode == 2 and "a folder. Give the path of a YAML file or" in none.stderr
    run = folder / "run"
    run.mkdir()
    (run / "config.yaml").write_text(BASE.replace("grpo", "dapo"))
    assert told(run, "dapo") == {} and told(run, "grpo") == told("dapo", "grpo")
    assert told(folder / "base.yaml", run, "--raw") == {"strategy.name": {"a": "grpo", "b": "dapo"}}


def test_raw_files_differ_in_what_is_written(folder: Path) -> None:
    other = BASE.replace("steps: 4", "steps: '${prompts}'") + "prompts: 4"
    (folder / "other.yaml").write_text(other)
    files = [f"{folder}/base.yaml", f"{folder}/other.yaml", "--raw"]
    assert told(*files) == {"trainer.max_steps": {"a": 4, "b": "${prompts}"}, "prompts": {"b": 4}}
    refused = gfcr("diff", "grpo", files[1], "--raw")
    assert refused.returncode == 2
    assert "--raw compares files" in refused.stderr
