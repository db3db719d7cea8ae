"""Calibration from a recorded run: the fake engine's own constants come back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import yaml
from pyarrow import parquet

from benchmarks.simulation.recorded import Calibration, calibrate
from benchmarks.systems.stages import decoding
from gfcr.errors import CheckpointError
from gfcr.speculation.cost import PassCost
from gfcr.tracking.folder import RunFolder
from tests.commands import gfcr

STEP_S, TOKEN_S = 0.02, 0.0005


def recorded(folder: Path, *, updates: int) -> Path:
    experiment: dict[str, Any] = {
        "study": "t",
        "model": "none",
        "engine": {"name": "fake", "mean_length": 20, "step_s": STEP_S, "token_s": TOKEN_S},
        "trainer": {"name": "dry", "max_steps": updates},
        "tracking": {"name": "local"},
        "prompts": 4,
        "evaluation": {"prompts": 4},
        "folder": str(folder / "runs"),
    }
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(experiment))
    done = gfcr("run", file, "--json")
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["folder"])


def test_the_engines_cost_is_recovered_and_the_run_plays_again(tmp_path: Path) -> None:
    run = recorded(tmp_path, updates=7)
    found = calibrate(run)
    assert found.updates == 6 and len(found.lengths) == 6
    assert found.cost.base_s == pytest.approx(STEP_S, rel=1e-6)
    assert found.cost.token_s == pytest.approx(TOKEN_S, rel=1e-6)
    assert found.cost_error < 1e-6 and not found.doubts
    assert "by 50%" in replace(found, cost_error=0.5).doubts[0]
    assert "pass came out as 0" in replace(found, cost=PassCost(base_s=0, token_s=1)).doubts[0]
    picture = tmp_path / "arms.png"
    done = gfcr(
        "simulate", "--from", run, "--draft", "0,3", "--updates", 3, "--plot", picture, "--json"
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    calibration = data["calibration"]
    assert calibration["simulated_passes"] == calibration["forward_passes"]
    assert calibration["simulated_s"] == pytest.approx(calibration["generate_s"], rel=1e-6)
    assert [arm["draft"] for arm in data["arms"]] == ["0", "0", "3", "3"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    file = RunFolder(run).updates[3]
    rows = parquet.read_table(file).to_pylist()
    replayed = pyarrow.Table.from_pylist([{**row, "origin": "replay"} for row in rows])
    parquet.write_table(replayed, file)
    assert calibrate(run).updates == 5, "an update that sampled nothing has no lengths"
    parquet.write_table(pyarrow.Table.from_pylist([{**row, "fork_at": 3} for row in rows]), file)
    (doubt,) = calibrate(run).doubts
    assert doubt.startswith("rollouts are branches of others")


def test_the_sub_stages_of_a_step_are_its_measured_seconds(tmp_path: Path) -> None:
    run, picture = recorded(tmp_path, updates=7), tmp_path / "graph.png"
    done = gfcr("simulate", "jigsaw", "--graph", run, "--plot", picture, "--json")
    assert done.returncode == 0, done.stderr
    nodes = json.loads(done.stdout)["sub_stages"]
    decoding = [node for node in nodes if node["running"] is not None]
    found = calibrate(run)
    assert sum(n["stage"]["work_s"] for n in decoding) == pytest.approx(found.generate_s)
    assert [n["stage"]["kind"] for n in decoding] == ["decode-0", "decode-1", "tail"]
    running = [n["running"] for n in decoding]
    assert running == sorted(running, reverse=True) and running[0] > running[-1] >= 1
    before = [[], *([n["stage"]["name"]] for n in nodes[:-1])]
    assert [n["stage"]["needs"] for n in nodes] == before, "one after the other"
    assert picture.read_bytes().startswith(b"\x89PNG")
    said = gfcr("simulate", "jigsaw", "--graph", run).stdout
    assert "rollouts a pass" in said and "DO NOT TRUST" not in said
    file = RunFolder(run).updates[3]
    rows = [{**row, "fork_at": 3} for row in parquet.read_table(file).to_pylist()]
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    assert "DO NOT TRUST" in gfcr("simulate", "jigsaw", "--graph", run).stdout


def test_quantiles_that_are_the_same_part_two_bands() -> None:
    lengths = np.array([40] * 30 + [60] * 2)
    found = Calibration(
        **{"run_id": "r", "updates": 2, "lengths": (lengths, lengths), "max_running": 64},
        **{"cost": PassCost(base_s=1.0, token_s=0.1), "cost_error": 0.0, "generate_s": 1.0},
        **{"forward_passes": 60, "train_s": 1.0, "prepare_s": 1.0},
    )
    nodes = decoding(found)
    assert [(n.stage.kind, n.tokens, n.running) for n in nodes] == [
        *(("decode-0", "1 to 40", 32), ("tail", "41 to 60", 2)),
    ]
    assert sum(n.stage.work_s for n in nodes) == pytest.approx(found.generate_s)


def test_a_run_with_too_few_updates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"2 updates .* at least 4 .*max_steps"):
        calibrate(recorded(tmp_path, updates=3))


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"run\.json is missing"):
        calibrate(tmp_path)
