"""The audit on real vLLM: our engine is lossless, vLLM as shipped is biased. About 60 s."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gfcr import registry
from gfcr.audit import Verdict, certificate_for, covered
from gfcr.engine.vllm import Vllm
from gfcr.speculation.ngram import Ngram
from gfcr.types import Sampling
from tests.integration.tiny_model import tiny_qwen3

pytestmark = [pytest.mark.vllm]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_qwen3(folder, seed=1, layers=1, eos=None)
    return folder


def audit(model: Path, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "gfcr", "audit", "--model", str(model), "--json"]
    command += ["--drafter", "ngram", "--folder", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout, done.stderr[-2000:]
    return done.returncode, json.loads(done.stdout)


def test_the_engine_is_lossless_with_ngram_drafts(model: Path, tmp_path: Path) -> None:
    code, found = audit(model, tmp_path, "--settings", "t1,min_p0.05,greedy")
    cells = {c["setting"]: c for c in found["cells"]}
    assert [cells[n]["verdict"] for n in ("t1", "greedy")] == ["lossless"] * 2
    assert cells["min_p0.05"]["refused"], cells["min_p0.05"]
    assert code == 0 and found["verdict"] == "lossless"
    for name in ("t1", "greedy"):
        assert 0 < cells[name]["accepted"] < cells[name]["drafted"]
        assert cells[name]["power"] >= 0.99
    specs = registry.spec("engine", Vllm()), registry.spec("drafter", Ngram())
    held = certificate_for(*specs, folder=tmp_path)
    assert held is not None and covered(held, sampling=Sampling()) is Verdict.LOSSLESS


@pytest.mark.skipif(torch.cuda.is_available(), reason="the defect is that of the CPU build")
def test_vllm_as_shipped_is_biased(model: Path, tmp_path: Path) -> None:
    options = ("--unpatched", "--settings", "t1", "--samples", "20000")
    code, found = audit(model, tmp_path, *options)
    assert code == 1 and found["fixes"] == []
    assert found["cells"][0]["verdict"] == "biased"
    assert found["cells"][0]["p_value"] < 1e-9
