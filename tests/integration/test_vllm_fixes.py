"""Each trap of vLLM on CPU: shut with our fix and, by `--whole`, open without it.

Stock vLLM runs in a process of its own, since a fix stays for the life of the process.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3ForCausalLM

from gfcr.engine import vllm_fixes
from gfcr.engine.base import Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.errors import EngineError
from gfcr.speculation.suffix import Suffix
from gfcr.types import Sampling
from tests.integration.tiny_model import VOCAB, entropy_z, tiny_qwen3
from tests.integration.vllm_stock import LONG, NGRAM, sample

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the traps are those of the CPU build"),
]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.vllm_stock", str(tmp_path_factory.mktemp("s"))],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.whole
def test_stock_speculation_is_biased(stock: dict[str, Any]) -> None:
    assert stock["fixes"] == []
    assert abs(stock["z"]) > 10


@pytest.mark.whole
def test_stock_weights_cannot_be_loaded_in_place(stock: dict[str, Any]) -> None:
    assert "weight_loader" in stock["load_weights"]


@pytest.mark.whole
def test_stock_reload_keeps_the_old_head_of_a_tied_model(stock: dict[str, Any]) -> None:
    to_new, to_new_body_with_old_head = stock["tied"]
    assert to_new > 0.5
    assert to_new_body_with_old_head < 1e-4
    assert stock["untied"][0] < 1e-4


@pytest.mark.whole
def test_stock_defaults_are_not_ours(stock: dict[str, Any]) -> None:
    assert stock["block_size"] == 128
    assert stock["dtype"] == "torch.bfloat16"
    # One token can be sampled, with probability 1: its log-prob is 0, not the raw model's.
    assert stock["top_k_1_logprob"] < -0.1


@pytest.mark.whole
def test_stock_speculation_with_top_k_loses_the_engine(stock: dict[str, Any]) -> None:
    assert "max()" in stock["top_k"]


@pytest.mark.whole
def test_stock_vllm_loses_the_engine_when_seeded_prompts_exceed_a_step(
    stock: dict[str, Any],
) -> None:
    assert "does not use offset" in stock["long"]


@pytest.mark.whole
def test_stock_vllm_starts_no_engine_after_numba(stock: dict[str, Any]) -> None:
    assert "has no attribute 'get'" in stock["second_start"]


def test_stock_vllm_is_refused_where_fixes_are_in_force(tmp_path: Path) -> None:
    tiny_qwen3(tmp_path)
    assert vllm_fixes.apply(cpu=True) == tuple(f.__name__ for f in vllm_fixes.CPU_FIXES)
    with pytest.raises(EngineError, match="start a fresh process"):
        Vllm(fixes=False).start(model=str(tmp_path), seed=0)


def test_a_repair_of_what_a_version_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before vLLM 0.31, which has no such module."""
    monkeypatch.setitem(sys.modules, "vllm.triton_utils.dispatcher", None)
    others = [f.__name__ for f in vllm_fixes.CPU_FIXES if f is not vllm_fixes.tolerant_scan]
    assert [*vllm_fixes.apply(cpu=True)] == others


SUFFIX = Suffix(draft_length=6)


@pytest.fixture(scope="module", params=[NGRAM, SUFFIX], ids=["ngram", "suffix"])
def speculating(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[VllmEngine, Qwen3ForCausalLM]]:
    if request.param is SUFFIX:
        pytest.importorskip("arctic_inference")
    folder = tmp_path_factory.mktemp("target")
    model = tiny_qwen3(folder, seed=1, eos=None)
    config, threads = Vllm(kv_cache_gib=0.25), torch.get_num_threads()
    engine = config.start(model=str(folder), seed=0, drafter=request.param)
    yield engine, model
    engine.close()
    assert torch.get_num_threads() == threads, "as many as before any n-gram was looked for"


def test_speculation_is_lossless_and_counted(
    speculating: tuple[VllmEngine, Qwen3ForCausalLM],
) -> None:
    engine, model = speculating
    assert abs(entropy_z(model, sample(engine, num=200), prompt=3)) < 4
    done = engine.stats()
    assert done.generated_tokens == 200 * 48
    assert done.accepted_tokens == sum(done.accepted_per_position) > 0
    assert done.drafts <= done.drafted_tokens <= done.drafts * len(done.accepted_per_position)


def test_a_request_cached_but_for_one_token_is_lossless(
    speculating: tuple[VllmEngine, Qwen3ForCausalLM],
) -> None:
    engine, model = speculating
    prompt = tuple((i * 7) % 18 + 2 for i in range(33))

    with torch.no_grad():
        expected = 600 * model(torch.tensor([prompt])).logits[0, -1].softmax(-1)

    def chi_square() -> float:
        """Of the next token over the vocabulary; 19 degrees of freedom."""
        counts = torch.zeros(VOCAB)
        for i in range(600):
            law = Sampling(max_tokens=1)
            engine.submit(Request(id=f"one{i}", tokens=prompt, sampling=law, seed=i))
        while engine._live:
            for delta in engine.step():
                counts[delta.tokens[0]] += 1
        rare = expected < 5
        seen, due = (torch.cat([x[~rare], x[rare].sum()[None]]) for x in (counts, expected))
        return float(((seen - due).square() / due.clamp(min=1e-9)).sum())

    chi_square()  # fills the cache
    before = engine.stats()
    assert chi_square() < 60
    assert engine.stats().cached_prompt_tokens - before.cached_prompt_tokens == 600 * 32
    assert engine.stats().drafts == before.drafts


def test_the_draft_budget_of_a_request_is_kept(
    speculating: tuple[VllmEngine, Qwen3ForCausalLM],
) -> None:
    engine, _ = speculating
    for budget in (0, 1):
        before = engine.stats()
        law = Sampling(max_tokens=100, top_k=1)
        engine.submit(Request(id="b", tokens=(2, 3), sampling=law, draft_budget=budget))
        while engine._live:
            engine.step()
        drafts = engine.stats().drafts - before.drafts
        assert engine.stats().drafted_tokens - before.drafted_tokens == drafts * budget
        assert (drafts > 0) == (budget > 0)


def test_min_p_is_refused_rather_than_ignored(
    speculating: tuple[VllmEngine, Qwen3ForCausalLM],
) -> None:
    law = Sampling(min_p=0.1, max_tokens=4)
    with pytest.raises(EngineError, match="min_p"):
        speculating[0].submit(Request(id="m", tokens=(2, 3), sampling=law))


def test_a_prompt_of_several_steps_is_sampled_with_its_own_seed(
    speculating: tuple[VllmEngine, Qwen3ForCausalLM],
) -> None:
    engine, _ = speculating

    def sampled(numbers: Sequence[int], *, prefix: str) -> dict[int, int]:
        """First token of each; all of these together need more than one step."""
        for i in numbers:
            law = Sampling(max_tokens=1)
            engine.submit(Request(id=f"{prefix}{i}", tokens=LONG[i], sampling=law, seed=i))
        tokens: dict[int, int] = {}
        while engine._live:
            for delta in engine.step():
                tokens[int(delta.request_id.removeprefix(prefix))] = delta.tokens[0]
        return tokens

    before = engine.stats().forward_passes
    together = sampled(range(40), prefix="together")
    assert engine.stats().forward_passes - before >= 2
    engine._core.reset_prefix_cache()
    alone = {i: t for n in range(40) for i, t in sampled([n], prefix=f"alone{n}-").items()}
    assert together == alone
