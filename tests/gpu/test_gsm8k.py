"""experiments/gsm8k on a CUDA device, in its own precision, with the small model of its script."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import small_chat

pytestmark = [pytest.mark.gpu, pytest.mark.vllm]
SMALL = [
    *("model=small/model", "task.path=small/data", "prompts=8", "evaluation.prompts=32"),
    "engine.kv_cache_gib=4",
]


def gfcr(*words: str, folder: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "gfcr", *words, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_chat_model_trains_in_bfloat16_beside_vllm(tmp_path: Path) -> None:
    small_chat.make(tmp_path / "small")
    grpo = str(small_chat.GSM8K / "grpo.yaml")
    found = gfcr("run", grpo, *SMALL, "trainer.max_steps=3", "tracking=local", folder=tmp_path)
    assert found["updates"] == 3
    lines = (tmp_path / str(found["folder"]) / "metrics.jsonl").read_text().splitlines()
    gaps = [json.loads(line)["metrics"].get("train/logprob_gap") for line in lines]
    # bfloat16 in the engine: weights that did not arrive are off by far more.
    assert max(gap for gap in gaps if gap is not None) < 5e-2
    cost = gfcr("bench", "updates", grpo, *SMALL, "--updates", "2", folder=tmp_path)
    assert isinstance(cost["device_gib"], float) and cost["device_gib"] > 1
