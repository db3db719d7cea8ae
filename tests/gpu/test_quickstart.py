"""The quickstart on a CUDA device: the same YAML, real vLLM and TRL. Takes a minute or two."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.gpu, pytest.mark.vllm]


@pytest.mark.parametrize("strategy", ["grpo", "dapo", "april"])
def test_the_same_yaml_trains_on_a_gpu(strategy: str, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "gfcr", "run", "experiments/quickstart/grpo.yaml", "--json"),
        *(f"strategy={strategy}", "trainer.max_steps=5", "evaluation.prompts=64"),
        *(f"folder={tmp_path}/runs", "tracking=local", "engine.kv_cache_gib=4"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["updates"] == 5 and result["tokens"]["remainder"] == 0
    lines = (Path(result["folder"]) / "metrics.jsonl").read_text().splitlines()
    gaps = [json.loads(line)["metrics"].get("train/logprob_gap") for line in lines]
    # float32 on both sides, but other kernels: weights that did not arrive are off by far more.
    assert strategy == "april" or max(g for g in gaps if g is not None) < 1e-2
