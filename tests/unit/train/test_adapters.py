"""LoRA's record, and what cannot be merged. PEFT's own layers, no trainer."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import IA3Config, LoraConfig, get_peft_model
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from gfcr.errors import ConfigError
from gfcr.train import adapters
from gfcr.train.adapters import check_mergeable, policy_weights
from gfcr.train.rollout_func import make_rollout_func
from gfcr.train.trl import Trl
from tests.cases import over


def qwen() -> Any:
    config = Qwen3Config(
        vocab_size=20,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=32,
        attention_bias=True,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config)


def adapted(base: Any, **changes: Any) -> Any:
    asked = {"r": 3, "lora_alpha": 6, "target_modules": "all-linear", "init_lora_weights": False}
    return get_peft_model(base, LoraConfig(**asked | changes))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {"rank": 16, "alpha": 32.0, "targets": "all-linear"}),
        ({"rank": 2, "alpha": 1}, {"rank": 2, "alpha": 1.0, "targets": "all-linear"}),
        ({"targets": ["q_proj"]}, {"rank": 16, "alpha": 32.0, "targets": ("q_proj",)}),
    ],
)
def test_the_record_says_every_value(given: Any, wanted: Any) -> None:
    assert Trl(lora=given).lora == wanted
    assert Trl(lora=Trl(lora=given).lora).lora == wanted
    assert Trl().lora is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rank": 0}, r"trainer\.lora\.rank=0 is not allowed: give an integer from 1 to"),
        ({"alpha": 0}, r"trainer\.lora\.alpha=0 is not allowed: give a number > 0"),
        ({"rang": 4}, r"unknown key 'rang' in trainer\.lora\. Did you mean 'rank'"),
        ({"targets": "q_proj"}, r"trainer\.lora\.targets='q_proj' is not allowed"),
        ({"targets": []}, r"trainer\.lora\.targets=\[\] is not allowed"),
        ({"dropout": 0.1}, r"unknown key 'dropout'"),
    ],
)
def test_the_record_is_checked(given: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Trl(lora=given)


def test_merged_weights_are_peft_s_own_and_the_base_stays() -> None:
    model = adapted(qwen())
    start = {n: p.clone() for n, p in model.named_parameters()}
    names = {n for n, _ in qwen().named_parameters()}
    found = dict(policy_weights(model))
    assert found.keys() == names and any(n.endswith("_proj.bias") for n in names)
    assert all(torch.equal(p, start[n]) for n, p in model.named_parameters())
    theirs = dict(model.merge_and_unload().named_parameters())
    assert all(torch.equal(found[n], theirs[n]) for n in names)
    moved = [n for n in names if "_proj.weight" in n]
    bases = {
        n.replace("base_model.model.", "").replace(".base_layer", ""): p for n, p in start.items()
    }
    assert all(not torch.equal(found[n], bases[n]) for n in moved)


def test_a_merged_policy_is_replaced_once_the_new_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "merged"

    def saved(content: str, *, full: bool) -> None:
        def save(draft: Path) -> None:
            draft.mkdir()
            (draft / content).touch()
            if full:
                raise OSError(errno.ENOSPC, "No space left on device")

        policy = SimpleNamespace(merge_and_unload=lambda: SimpleNamespace(save_pretrained=save))
        tokenizer = SimpleNamespace(save_pretrained=lambda draft: (draft / "tokenizer").touch())
        monkeypatch.setattr(adapters, "load", lambda *_, **__: policy)
        monkeypatch.setattr(adapters, "tokenizer_of", lambda *_, **__: tokenizer)
        assert adapters.save_merged("start", checkpoint=tmp_path, folder=folder) == folder

    def held() -> list[str]:
        return sorted(file.name for file in folder.iterdir())

    saved("old", full=False)
    with pytest.raises(OSError, match="No space"):
        saved("new", full=True)
    assert held() == ["old", "tokenizer"]
    saved("new", full=False)
    assert held() == ["new", "tokenizer"] and [*tmp_path.iterdir()] == [folder]


def test_without_adapters_weights_are_the_parameters_themselves() -> None:
    plain = nn.Linear(2, 2)
    assert [w is p for (_, w), p in zip(policy_weights(plain), plain.parameters(), strict=True)]
    check_mergeable(plain)


@over(
    ("changes", "words"),
    [
        ({"use_dora": True}, "has a variant of LoRA"),
        ({"bias": "all"}, r"bias is trained"),
        ({"modules_to_save": ["norm"]}, "modules_to_save.*is trained"),
        ({"target_modules": ["embed_tokens"]}, r"embed_tokens \(Embedding\) is no linear layer"),
        ({"target_modules": ["lm_head"]}, "lm_head shares its weight with another module"),
    ],
)
def test_what_cannot_be_merged_is_refused(changes: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_mergeable(adapted(qwen(), **changes))
    check_mergeable(adapted(qwen(), use_rslora=True, rank_pattern={"q_proj": 2}))


def test_other_adapters_are_refused() -> None:
    asked = IA3Config(target_modules=["k_proj"], feedforward_modules=[], task_type="CAUSAL_LM")
    model, words = get_peft_model(qwen(), asked), r"ia3_l.*Give plain LoRA of linear layers"
    with pytest.raises(ConfigError, match=words):
        check_mergeable(model)
    script: Any = SimpleNamespace(model=model, state=SimpleNamespace(global_step=0))
    script.accelerator = SimpleNamespace(unwrap_model=lambda model: model)
    synced: Any = pytest.fail
    with pytest.raises(ConfigError, match=words):
        make_rollout_func(synced, sync=synced)(["a"], script)
