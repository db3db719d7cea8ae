"""`gfcr bench time-to-target` with real stock TRL beside a real run. About 60 s."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.vllm, pytest.mark.whole]
STUDY = """
study: tiny
model: demo
task: {name: chain_sum, num_train: 32, num_heldout: 32}
prompts: 4
sampling: {max_tokens: 64}
trainer: {name: trl, max_steps: 2, micro_batches: 2}
evaluation: {prompts: 32, every: 1, sampling: {max_tokens: 64}}
tracking: local
arms:
  dapo: {strategy: {name: dapo, group_size: 4}}
"""


def bench(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    (folder / "study.yaml").write_text(STUDY)
    command = [sys.executable, "-m", "gfcr", "bench", "time-to-target", "study.yaml", "--json"]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=300, cwd=folder
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("target")


@pytest.fixture(scope="module")
def measured(folder: Path) -> dict[str, Any]:
    code, found, words = bench(folder, "--target", "1")
    assert code == 1, words  # ran, and two updates do not make a model perfect
    return found


def test_both_sides_train_and_count(measured: dict[str, Any]) -> None:
    (arm,) = measured["arms"]
    for side in (measured["stock"], arm):
        assert (side["reached"], side["runs"], side["failed"]) == (0, 1, {}), side
        run = side["runs_by_seed"]["0"]
        assert run["updates"] == 2
        assert 0 < run["seconds"] < run["wall_s"]
        assert 0 < run["score"] < 1
    # Two updates of 4 prompts x 4 rollouts; refilling makes more.
    assert 2 * 16 * 5 < measured["stock"]["runs_by_seed"]["0"]["tokens"] <= 2 * 16 * 64
    assert arm["seconds_ratio"]["value"] is None


def test_stock_trl_trains_on_a_repaired_engine(folder: Path, measured: dict[str, Any]) -> None:
    answer = json.loads(
        (folder / "runs" / "tiny" / "stock-trl" / "seed-0" / "result.json").read_text()
    )
    assert "plain_linears" in answer["repairs"]
    assert [point[0] for point in answer["curve"]] == [0, 1, 2]


def test_finished_runs_are_not_run_again(folder: Path, measured: dict[str, Any]) -> None:
    assert bench(folder, "--target", "1")[1] == measured


def test_a_target_met_before_training_is_refused(folder: Path, measured: dict[str, Any]) -> None:
    code, _, words = bench(folder, "--target", "0.01")
    assert code == 2
    assert "before the first update" in words
