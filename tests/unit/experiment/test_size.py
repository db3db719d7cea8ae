"""The memory and disk that a run foretells are those of weights, gradients and moments."""

from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from gfcr import config as configs
from gfcr import models
from gfcr.errors import ConfigError
from gfcr.experiment import size
from gfcr.experiment.resolved import resolve
from gfcr.train import adapters
from tests.integration.tiny_model import tiny_chain_sum


def told(kv_cache_gib: float | None = 2, strategy: str = "grpo", **trainer: Any) -> str:
    values = {
        "model": "m",
        "engine": {"name": "vllm", "kv_cache_gib": kv_cache_gib, "dtype": "bfloat16"},
        "trainer": {"name": "trl", **trainer},
        "strategy": strategy,
    }
    return size.size_of(resolve(configs.experiment(values, where="t")), model="m")


def shapes(rows: int) -> dict[str, list[int]]:
    """Of a model with so many parameters, of which LoRA adapts one matrix."""
    return {"model.layers.0.up_proj.weight": [rows, 2**14], "norm.weight": [2**28 - rows * 2**14]}


def test_memory_and_checkpoints_follow_from_the_number_of_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(size, "shapes_of", lambda model: shapes(2**13))
    assert told() == (
        "size: 268 million parameters; memory for trainer 4.0, engine 0.5 and its cache 2.0 GiB, "
        "and more for each pass; a checkpoint: 3.0 GiB, 1.0 once it has ended"
    )
    assert told(keep_optimizer=True).endswith("a checkpoint: 3.0 GiB")
    assert "trainer 5.0" in told(beta=0.1), "a reference"
    assert "trainer 5.0" in told(strategy="dpo"), "it has one whatever trainer.beta"
    assert "trainer 1.0" in told(strategy="dpo", lora={"rank": 2})
    assert "trainer 1.0" in told(lora={"rank": 2}) and "adapters alone" in told(lora={"rank": 2})
    asked = {"adafactor": 2.0, "adamw_torch_8bit": 2.5, "lion_32bit": 3.0, "adamw_torch_4bit": 2.2}
    for optimizer, memory in asked.items():
        assert f"trainer {memory}," in told(optimizer=optimizer), optimizer
    assert "a checkpoint: 1.0 GiB" in told(optimizer="adafactor")
    assert "cache 1.0 GiB (on a CPU)," in told(kv_cache_gib=None)
    monkeypatch.setattr(size, "shapes_of", lambda model: {})
    assert not told()


def test_parameters_are_counted_as_saved(tmp_path: Path) -> None:
    tiny_chain_sum(tmp_path)
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    named = {name: [*tensor.shape] for name, tensor in model.named_parameters()}
    save_file({"layers.0.wk.weight": torch.ones(2, 3)}, tmp_path / "consolidated.safetensors")
    assert models.weights_of(str(tmp_path)) == (tmp_path / "model.safetensors").stat().st_size
    assert {name: [*shape] for name, shape in size.shapes_of(str(tmp_path)).items()} == named


def test_lora_s_parameters_moments_and_gradients_are_those_that_peft_makes(tmp_path: Path) -> None:
    tiny_chain_sum(tmp_path)
    given: Any = {"rank": 4, "targets": ["self_attn.q_proj", "up_proj"]}
    for lora in ({"rank": 4}, given):
        model: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
        wrapped: Any = peft.get_peft_model(model, adapters.peft_config(adapters.read(lora)))
        trained = sum(p.numel() for p in wrapped.parameters() if p.requires_grad)
        values = {
            "model": "m",
            "engine": {"name": "vllm"},
            "trainer": {"name": "trl", "lora": lora},
        }
        found = size.weigh(
            resolve(configs.experiment(values, where="t")), shapes=size.shapes_of(str(tmp_path))
        )
        assert found is not None and found.trained == trained
        assert (found.gradients, found.moments) == (4 * trained, 8 * trained)


def test_a_target_that_the_model_has_not_is_named_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(size, "shapes_of", lambda model: shapes(2**13))
    with pytest.raises(ConfigError, match=r"lora\.targets: .* 'up_prj'\. Did you mean 'up_proj'"):
        told(lora={"targets": ["up_proj", "up_prj"]})
