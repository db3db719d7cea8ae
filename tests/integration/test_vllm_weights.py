"""Weights reach the engine exactly, tied and (by `--whole`) untied."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3ForCausalLM

from gfcr.engine.base import Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.errors import EngineError
from gfcr.train.adapters import policy_weights
from gfcr.types import Sampling
from tests.integration.tiny_model import reference_logprobs, tiny_qwen3
from tests.sample import sample

pytestmark = pytest.mark.vllm

LONG = tuple(range(2, 20)) * 5
"""A prompt of 90 tokens: two cached blocks of 32."""


@pytest.fixture(scope="module", params=sample(["tied", "untied"], always=["tied"]))
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[VllmEngine, Path, bool]]:
    folder, tied = tmp_path_factory.mktemp(request.param), request.param == "tied"
    tiny_qwen3(folder, seed=0, tied=tied)
    engine = Vllm(kv_cache_gib=0.25).start(model=str(folder), seed=0)
    yield engine, folder, tied
    engine.close()


def worst_gap(engine: VllmEngine, model: Qwen3ForCausalLM) -> float:
    """Largest |log-prob of a sampled token - transformers'|, over sampling and scoring."""
    for i in range(4):
        sampling = Sampling(max_tokens=40)
        engine.submit(Request(id=f"g{i}", tokens=LONG[: 90 - i], sampling=sampling, seed=i))
    tokens: dict[str, list[int]] = {f"g{i}": list(LONG[: 90 - i]) for i in range(4)}
    logprobs: dict[str, list[float]] = {name: [] for name in tokens}
    while engine._live:
        for delta in engine.step():
            assert delta.version == engine.version
            tokens[delta.request_id] += delta.tokens
            logprobs[delta.request_id] += delta.logprobs
    scores = [s.logprobs_T for s in engine.score(list(tokens.values()), sampling=Sampling())]
    gaps: list[float] = []
    for (name, ids), score in zip(tokens.items(), scores, strict=True):
        expected = reference_logprobs(model, ids).numpy()
        gaps.append(float(np.abs(expected - score).max()))
        sampled = expected[-len(logprobs[name]) :]
        gaps.append(float(np.abs(sampled - logprobs[name]).max()))
    return max(gaps)


def other(tmp_path: Path, *, seed: int, tied: bool) -> Qwen3ForCausalLM:
    return tiny_qwen3(tmp_path / str(seed), seed=seed, tied=tied)


def test_every_sync_makes_the_engine_equal_the_trainer(
    started: tuple[VllmEngine, Path, bool], tmp_path: Path
) -> None:
    engine, folder, tied = started
    # The prompts repeat, so that a prefix cache that outlived a sync would show in the second.
    for seed in (1, 2):
        model = other(tmp_path, seed=seed, tied=tied)
        engine.update_weights(model.named_parameters(), version=seed)
        assert engine.version == seed
        assert worst_gap(engine, model) < 1e-4
    whole = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    engine.update_weights(whole.state_dict().items(), version=3)
    assert worst_gap(engine, whole) < 1e-4


def test_adapters_reach_the_engine_merged(
    started: tuple[VllmEngine, Path, bool], tmp_path: Path
) -> None:
    """The reference computes with the adapters beside the weights, as it does in training."""
    engine, _, tied = started
    plain = other(tmp_path, seed=10, tied=tied)
    asked = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False)
    base = other(tmp_path, seed=10, tied=tied)
    with torch.random.fork_rng():  # requests of other tests draw with the global generator
        adapted: Any = get_peft_model(base, asked).eval()
    for version, scale in ((10, 1.0), (11, -2.0)):
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.data *= scale
        engine.update_weights(policy_weights(adapted), version=version)
        assert worst_gap(engine, adapted) < 1e-4
        assert worst_gap(engine, plain) > 0.05


def test_the_prefix_cache_is_used_between_syncs_and_dropped_by_them(
    started: tuple[VllmEngine, Path, bool], tmp_path: Path
) -> None:
    engine, _, tied = started
    model = other(tmp_path, seed=4, tied=tied)
    engine.update_weights(model.named_parameters(), version=4)
    cached: list[int] = []
    for _ in range(2):
        before = engine.stats().cached_prompt_tokens
        worst_gap(engine, model)
        cached.append(engine.stats().cached_prompt_tokens - before)
    assert cached[1] == 4 * 64 > cached[0]
    engine._runner.get_model().load_weights(other(tmp_path, seed=5, tied=tied).named_parameters())
    assert worst_gap(engine, other(tmp_path, seed=5, tied=tied)) > 0.05


def test_a_sync_is_refused_while_requests_run(
    started: tuple[VllmEngine, Path, bool], tmp_path: Path
) -> None:
    engine, _, tied = started
    model = other(tmp_path, seed=6, tied=tied)
    sampling = Sampling(max_tokens=50, top_k=2)
    engine.submit(Request(id="running", tokens=(2, 3), sampling=sampling, endless=True))
    engine.step()
    with pytest.raises(EngineError, match="1 requests are in flight"):
        engine.update_weights(model.named_parameters(), version=9)
    engine.abort(["running"])
    engine.update_weights(model.named_parameters(), version=9)
    assert worst_gap(engine, model) < 1e-4


def test_wrong_weights_are_named_before_anything_is_loaded(
    started: tuple[VllmEngine, Path, bool], tmp_path: Path
) -> None:
    engine, _, tied = started
    model = other(tmp_path, seed=7, tied=tied)
    engine.update_weights(model.named_parameters(), version=7)
    items = dict(other(tmp_path, seed=8, tied=tied).named_parameters())
    name = "model.layers.1.mlp.up_proj.weight"
    with pytest.raises(EngineError, match=rf"lack 1 .*'{name}'"):
        engine.update_weights([i for i in items.items() if i[0] != name], version=8)
    assert engine.version == 7
    assert worst_gap(engine, model) < 1e-4
    with pytest.raises(EngineError, match="vLLM refused the new weights"):
        engine.update_weights([*items.items(), ("module.surprise", torch.zeros(1))], version=8)
