"""Gradient checkpointing and bf16 act, with and without LoRA (about 15 s alone)."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gfcr import config as configs
from gfcr.experiment.resolved import resolve
from gfcr.experiment.size import shapes_of, weigh
from gfcr.train.trl import Trl
from tests.integration.trl_script import (
    Scripted,
    change,
    groups,
    plain_sgd,
    relative,
    run,
    samples_of,
    tiny_policy,
)

LORA = {"rank": 4, "alpha": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


class Seen:
    """What a trainer's model did: calls of a layer, types of what its products are of."""

    def __init__(self) -> None:
        self.layers = 0
        self.products: set[torch.dtype] = set()
        self.trainer: Any = None


@pytest.fixture
def seen(monkeypatch):
    found, made = Seen(), Trl._trainer

    def watched(self: Trl, job: Any) -> Any:
        found.trainer = trainer = made(self, job)
        for name, module in trainer.model.named_modules():
            if name.endswith("layers.0.self_attn"):
                module.register_forward_hook(lambda *_: count(found))
            if isinstance(module, nn.Linear) and "up_proj" in name:
                module.register_forward_hook(lambda m, i, out: found.products.add(out.dtype))
        return trainer

    monkeypatch.setattr(Trl, "_trainer", watched)
    return found


def count(found: Seen) -> None:
    found.layers += 1


def trained(model: str, folder: Path, **changes: Any) -> Scripted:
    source = Scripted(make=lambda n: samples_of(groups(n)))
    run(plain_sgd(micro_batches=2, **changes), source, model=model, folder=folder)
    return source


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
def test_checkpointing_computes_layers_again_and_changes_no_gradient(model, tmp_path, seen, lora):
    plain = trained(model, tmp_path / "a", lora=lora)
    once, seen.layers = seen.layers, 0
    saving = trained(model, tmp_path / "b", lora=lora, gradient_checkpointing=True)
    assert once == 2 * 2, "two updates of two passes"
    assert seen.layers == 2 * once
    assert change(plain).norm() > 0.1
    assert relative(change(saving), change(plain)) < 1e-6


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
def test_bf16_multiplies_in_half_precision_and_keeps_weights_whole(model, tmp_path, seen, lora):
    whole = trained(model, tmp_path / "a", lora=lora)
    assert seen.products == {torch.float32}
    seen.products.clear()
    adam = {"optimizer": "adamw_torch", "learning_rate": 1e-3, "lora": lora, "bf16": True}
    trained(model, tmp_path / "b", **adam)
    assert torch.bfloat16 in seen.products
    params = list(seen.trainer.model.parameters())
    assert {p.dtype for p in params} == {torch.float32}
    states = [s for s in seen.trainer.optimizer.state.values() if "exp_avg" in s]
    assert states and {s["exp_avg"].dtype for s in states} == {torch.float32}
    assert len(states) == sum(p.requires_grad for p in params)
    half = trained(model, tmp_path / "c", lora=lora, bf16=True)
    assert all(w.dtype == torch.float32 for w in half.weights[-1].values())
    assert 1e-4 < relative(change(half), change(whole)) < 0.3


def test_lora_s_optimizer_holds_its_matrices_alone(model, tmp_path, seen):
    trained(model, tmp_path, lora=LORA, optimizer="adamw_torch", learning_rate=1e-3)
    held = {id(p) for group in seen.trainer.optimizer.param_groups for p in group["params"]}
    named = dict(seen.trainer.model.named_parameters())
    assert {n for n, p in named.items() if id(p) in held} == {n for n in named if ".lora_" in n}
    assert all(p.grad is None for n, p in named.items() if ".lora_" not in n)


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
def test_what_a_trainer_holds_is_what_was_foretold(model, tmp_path, seen, lora):
    settings = {"optimizer": "adamw_torch", "lora": lora}
    gradients = list[int]()

    def measure(optimizer: Any, *_: Any) -> None:
        held = [p.grad for group in optimizer.param_groups for p in group["params"]]
        gradients.append(sum(each.nbytes for each in held if each is not None))

    hook = register_optimizer_step_pre_hook(measure)
    try:
        trained(model, tmp_path, **settings)
    finally:
        hook.remove()
    values = {"model": model, "engine": {"name": "vllm"}, "trainer": {"name": "trl", **settings}}
    told = weigh(resolve(configs.experiment(values, where="t")), shapes=shapes_of(model))
    assert told is not None
    assert told.weights == sum(p.nbytes for p in seen.trainer.model.parameters())
    states = seen.trainer.optimizer.state.values()
    assert told.moments == sum(s["exp_avg"].nbytes + s["exp_avg_sq"].nbytes for s in states)
    assert {*gradients} == {told.gradients}
