"""Memory by turns on a CUDA device: it is given back, and everything is there after waking."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gfcr.engine.base import Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.speculation.draft_model import DraftModel
from gfcr.types import Sampling
from tests.integration.tiny_model import tiny_qwen3

ROOT = Path(__file__).parents[2]
CACHE_GIB = 4

pytestmark = [pytest.mark.gpu, pytest.mark.vllm]


@pytest.mark.parametrize("level", [1, 2])
def test_a_run_that_takes_turns_trains_on_what_it_sampled(level: int, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "gfcr", "run", "experiments/quickstart/grpo.yaml", "--json"),
        *("trainer.max_steps=4", "evaluation.prompts=64", "evaluation.every=2", "tracking=local"),
        *(f"engine.sleep={level}", f"engine.kv_cache_gib={CACHE_GIB}", f"folder={tmp_path}/runs"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["updates"] == 4 and result["tokens"]["remainder"] == 0
    assert [point[0] for point in result["curve"]] == [0, 2, 4]
    lines = (Path(result["folder"]) / "metrics.jsonl").read_text().splitlines()
    gaps = [json.loads(line)["metrics"].get("train/logprob_gap") for line in lines]
    assert max(gap for gap in gaps if gap is not None) < 1e-2, "weights that did not come back"


def drawn(engine: VllmEngine, *, name: str) -> tuple[list[int], int]:
    """Greedy tokens of one request, and how many drafted ones were accepted."""
    was = engine.stats().accepted_tokens
    sampling = Sampling(max_tokens=60, temperature=0.0)
    engine.submit(Request(id=name, tokens=(2, 3, 4), sampling=sampling, endless=True))
    tokens: list[int] = []
    while engine._live:
        tokens += [token for delta in engine.step() for token in delta.tokens]
    return tokens, engine.stats().accepted_tokens - was


def free_gib() -> float:
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0] / 2**30


def test_asleep_the_cache_s_memory_is_free_and_the_drafter_drafts_on_after_waking(
    tmp_path: Path,
) -> None:
    policy = tiny_qwen3(tmp_path)
    drafter = DraftModel(model=str(tmp_path), draft_length=3, sample="greedy")
    config = Vllm(kv_cache_gib=CACHE_GIB, sleep=2)
    engine = config.start(model=str(tmp_path), seed=0, drafter=drafter)
    try:
        before = drawn(engine, name="before")
        assert len(before[0]) == 60 and before[1] > 30, "the drafter is the policy"
        for version in (1, 2):
            awake = free_gib()
            engine.sleep()
            assert free_gib() - awake > 0.9 * CACHE_GIB
            engine.update_weights(policy.cuda().named_parameters(), version=version)
            assert drawn(engine, name=f"after {version}") == before
    finally:
        engine.close()
