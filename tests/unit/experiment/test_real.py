"""experiments/real: its problems are those of its script, and its files are ready to start."""

import importlib.util
import json
import shutil
from pathlib import Path
from string import printable
from typing import Any

import pytest
import torch

from gfcr import config as configs
from gfcr import sweep
from gfcr.code import loose
from gfcr.experiment.rehearsal import rehearse
from gfcr.train import sft
from tests.integration.tiny_model import tiny_qwen3

REAL = Path(__file__).parents[3] / "experiments" / "real"


def test_the_problems_are_the_script_s_and_their_answers_right() -> None:
    spec = importlib.util.spec_from_file_location("problems", REAL / "problems.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    rows = [json.loads(line) for line in (REAL / "problems.jsonl").read_text().splitlines()]
    assert rows == script.problems()
    for row in rows:
        words = row["question"].split()
        has, other = int(words[2]), int(words[6].rstrip("."))
        assert int(row["answer"]) == (has + other if words[5] == "gets" else has - other) >= 0


def test_density_counts_the_elements_that_a_dtype_can_tell_apart() -> None:
    """Steps of 1/1024 at 1 are below bfloat16's spacing (1/128), and at float16's (1/1024)."""
    part: Any = loose.load(REAL / "density.py").Density()
    weight = torch.ones(4, 8)
    part.follow({"w": weight}, version=0)
    assert part.metrics() == {}
    weight[0] += 1 / 1024
    part.follow({"w": weight}, version=1)
    assert part.metrics() == {"float32": 0.25, "bfloat16": 0.0, "float16": 0.25}
    weight[1, :4] += 1 / 32
    part.follow({"w": weight}, version=2)
    assert part.metrics() == dict.fromkeys(("float32", "bfloat16", "float16"), 0.125)


def test_a_run_and_the_study_would_start_on_any_model_in_that_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(REAL, tmp_path, dirs_exist_ok=True)
    tiny_qwen3(tmp_path / "model")
    sft.char_tokenizer(printable).save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    one = rehearse(configs.read_experiment("grpo.yaml", overrides=[]), fresh=False)
    assert one.would == "start", one.detail
    assert "37 to train on" in one.data and one.size.startswith("size: ")
    study = sweep.load("study.yaml", overrides=[])
    assert len(study.trials) == 6
    assert rehearse(study.trials[-1].config, fresh=False, prompts=False).would == "start"
