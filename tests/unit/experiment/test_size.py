"""The memory and disk that a run foretells are those of weights, gradients and moments."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from gfcr import config as configs
from gfcr.experiment import size
from gfcr.experiment.resolved import resolve
from tests.integration.tiny_model import tiny_chain_sum


def told(kv_cache_gib: float | None = 2, **trainer: Any) -> str:
    values = {
        "model": "m",
        "engine": {"name": "vllm", "kv_cache_gib": kv_cache_gib, "dtype": "bfloat16"},
        "trainer": {"name": "trl", **trainer},
    }
    return size.size_of(resolve(configs.experiment(values, where="t")), model="m")


def test_memory_and_checkpoints_follow_from_the_number_of_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(size, "_parameters", lambda folder: 2**28)
    assert told() == (
        "size: 268 million parameters; memory for trainer 4.0, engine 0.5 and its cache 2.0 GiB, "
        "and more for each pass; a checkpoint: 3.0 GiB, 1.0 once it has ended"
    )
    assert "trainer 5.0" in told(beta=0.1), "a reference"
    assert "trainer 1.0" in told(lora={"rank": 2}) and "adapters alone" in told(lora={"rank": 2})
    assert "cache 1.0 GiB (on a CPU)," in told(kv_cache_gib=None)
    monkeypatch.setattr(size, "_parameters", lambda folder: 0)
    assert not told()


def test_parameters_are_counted_as_saved(tmp_path: Path) -> None:
    tiny_chain_sum(tmp_path)
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert size._parameters(tmp_path) == sum(p.numel() for p in model.parameters())
