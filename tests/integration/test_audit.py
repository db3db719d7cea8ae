"""The audit on real vLLM: ours is lossless; as shipped, or by SPEC-RL's rule, biased."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from gfcr import registry
from gfcr.audit import Verdict, certificate_for, covered
from gfcr.audit.plan import engine_for
from gfcr.speculation.ngram import Ngram
from gfcr.types import Sampling
from tests.commands import gfcr
from tests.integration.tiny_model import tiny_qwen3

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_qwen3(folder, seed=1, layers=1, eos=None)
    return folder


def audit(model: Path, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    where = ("--model", model, "--folder", folder, "--max-tokens", "64")
    done = gfcr("audit", *where, *options, "--json")
    assert done.stdout, done.stderr[-2000:]
    return done.returncode, json.loads(done.stdout)


def eager(folder: Path) -> str:
    """N-grams that draft wherever they can."""
    file = folder / "eager.yaml"
    file.write_text("{name: ngram, longest: 2, shortest: 1}\n")
    return str(file)


@pytest.mark.whole
def test_what_few_tokens_show_is_no_certificate(model: Path, tmp_path: Path) -> None:
    options = ("--drafter", eager(tmp_path), "--settings", "t1", "--samples", "12000")
    code, found = audit(model, tmp_path, *options)
    (cell,) = found["cells"]
    assert code == 1 and cell["verdict"] == "inconclusive" and cell["power"] < 0.99
    assert cell["p_value"] > 1e-3 and 0 < cell["accepted"] < cell["drafted"]


@pytest.mark.whole
def test_a_server_s_steps_are_seen_as_those_of_this_process(model: Path, tmp_path: Path) -> None:
    options = ("--drafter", eager(tmp_path), "--settings", "t1", "--samples", "8000")
    _, found = audit(model, tmp_path, *options, "engine.name=vllm_server")
    (cell,) = found["cells"]
    assert cell["verdict"] == "inconclusive" and cell["p_value"] > 1e-3
    assert "plain_linears" in found["fixes"]
    # Every draft of vLLM's n-grams is of three tokens, but at the end of a request.
    assert cell["longest_draft"] == 3 and set(cell["drafts"]) == {"1", "2"}
    kinds = {kind: of["tokens"] for kind, of in cell["logprobs"].items()}
    assert 0 < kinds["accepted"] <= cell["accepted"] < cell["drafted"]
    assert sum(kinds.values()) == cell["tokens"] > cell["speculated"] > kinds["accepted"]


@pytest.mark.whole
def test_a_server_is_lossless_with_and_without_drafts(model: Path, tmp_path: Path) -> None:
    options = ("--drafter", f"none,{eager(tmp_path)}", "--settings", "t1,greedy")
    code, found = audit(model, tmp_path, *options, "engine.name=vllm_server")
    assert code == 0 and [c["verdict"] for c in found["cells"]] == ["lossless"] * 4


@pytest.mark.whole
@pytest.mark.skipif(torch.cuda.is_available(), reason="the defect is that of the CPU build")
def test_a_server_without_repairs_is_biased(model: Path, tmp_path: Path) -> None:
    options = ("--drafter", "ngram", "--settings", "t1", "--samples", "20000")
    code, found = audit(model, tmp_path, *options, "engine.name=vllm_server", "engine.fixes=false")
    assert code == 1 and found["fixes"] == []
    assert found["cells"][0]["verdict"] == "biased"


@pytest.mark.whole
def test_the_engine_is_lossless_with_ngram_drafts(model: Path, tmp_path: Path) -> None:
    options = ("--drafter", eager(tmp_path), "--settings", "t1,min_p0.05,greedy")
    code, found = audit(model, tmp_path, *options)
    cells = {c["setting"]: c for c in found["cells"]}
    assert [cells[n]["verdict"] for n in ("t1", "greedy")] == ["lossless"] * 2
    assert cells["min_p0.05"]["refused"], cells["min_p0.05"]
    assert code == 0 and found["verdict"] == "lossless"
    for name in ("t1", "greedy"):
        assert 0 < cells[name]["accepted"] < cells[name]["drafted"]
        assert cells[name]["power"] >= 0.99
    drafter = registry.spec("drafter", Ngram(longest=2, shortest=1))
    engine = registry.spec("engine", engine_for(model))
    short = Sampling(max_tokens=64)
    held = certificate_for(engine, drafter, model=str(model), sampling=short, folder=tmp_path)
    assert held is not None and covered(held, sampling=short) is Verdict.LOSSLESS


@pytest.mark.whole
def test_old_responses_as_drafts_are_exact_by_our_rule_and_biased_by_the_released_one(
    model: Path, tmp_path: Path
) -> None:
    released = tmp_path / "released.yaml"
    released.write_text("{name: spec_rl, rule: released}\n")
    options = ("--drafter", f"spec_rl,{released}", "--settings", "t1", "--samples", "40000")
    code, found = audit(model, tmp_path, *options)
    ours, theirs = found["cells"]
    assert ours["verdict"] != "biased" and ours["p_value"] > 1e-3, ours
    assert 0 < ours["accepted"] < ours["drafted"]
    assert theirs["verdict"] == "biased" and theirs["p_value"] < 1e-9, theirs
    assert code == 1 and found["verdict"] == "biased"


@pytest.mark.whole
@pytest.mark.skipif(torch.cuda.is_available(), reason="the defect is that of the CPU build")
def test_vllm_as_shipped_is_biased(model: Path, tmp_path: Path) -> None:
    options = ("--drafter", "ngram", "--unpatched", "--settings", "t1", "--samples", "20000")
    code, found = audit(model, tmp_path, *options)
    assert code == 1 and found["fixes"] == []
    assert found["cells"][0]["verdict"] == "biased"
    assert found["cells"][0]["p_value"] < 1e-9
