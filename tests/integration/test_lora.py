"""LoRA: stock TRL's and PEFT's own updates, resumed, merged and saved."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from gfcr import models
from gfcr.correction.truncated import Truncated
from gfcr.engine.vllm_model import open_folder
from gfcr.errors import ConfigError
from gfcr.train.checkpoint import load
from gfcr.train.rollout_func import make_rollout_func
from gfcr.train.trl import Trl
from gfcr.types import Loss
from tests import commands, small_chat
from tests.integration import cli
from tests.integration.ranks_script import precise
from tests.integration.test_ranks_runs import written
from tests.integration.tiny_model import tiny_chain_sum
from tests.integration.trl_script import (
    Scripted,
    groups,
    plain_sgd,
    relative,
    run,
    samples_of,
    tiny_policy,
)
from tests.integration.trl_stock import stock_grpo, train_stock

TOLERANCE = 1e-5
LORA = {"rank": 4, "alpha": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


def scripted(**changes):
    return Scripted(make=lambda n: samples_of(groups(n)), **changes)


def config(**changes):
    asked = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    return LoraConfig(**asked | changes)


def flat(tensors):
    return torch.cat([tensors[name].flatten() for name in sorted(tensors)])


def adapters_of(folder: Path):
    return load_file(folder / "adapter_model.safetensors")


def stock(model, folder, *, double=False, **changes):
    """What stock TRL and PEFT make of the adapters, and what these were."""
    asked = {"seed": 0, **changes}  # TRL draws the adapters with it
    trainer: Any = stock_grpo(model, groups, folder=folder, peft_config=config(), **asked)
    if double:
        trainer.model.double()
    before = {n: p.clone() for n, p in get_peft_model_state_dict(trainer.model).items()}
    train_stock(trainer)
    return flat(before), flat(get_peft_model_state_dict(trainer.model))


@pytest.mark.parametrize(
    ("shared", "own"),
    [
        ({}, {}),
        ({"beta": 0.05}, {}),
        ({"gradient_checkpointing": True}, {}),
        ({"num_iterations": 2, "max_steps": 4}, {"iterations": 2, "max_steps": 2}),
    ],
    ids=["plain", "kl", "checkpointing", "iterations"],
)
def test_the_adapters_become_those_of_trl_and_peft(model, tmp_path, shared, own):
    before, theirs = stock(model, tmp_path / "a", **shared)
    ours = {k: v for k, v in shared.items() if k not in ("num_iterations", "max_steps")}
    source = scripted()
    run(plain_sgd(lora=LORA, **ours, **own), source, model=model, folder=tmp_path / "b")
    trained = flat(adapters_of(tmp_path / "b/checkpoint-2"))
    assert (theirs - before).norm() > 0.1
    assert relative(trained - before, theirs - before) < TOLERANCE
    if "beta" in shared:
        assert source.metrics[0]["kl"] == pytest.approx(0, abs=1e-6)
        assert source.metrics[1]["kl"] > 1e-3


@pytest.mark.parametrize("name", ["demo", "chat"])
def test_the_adapters_of_a_model_that_was_trained_become_those_of_trl_and_peft(name, tmp_path):
    if name == "chat":
        small_chat.make(tmp_path)
    model = str(models.resolve("demo") if name == "demo" else tmp_path / "model")
    before, theirs = stock(model, tmp_path / "a", double=True)
    with precise():  # in single precision rounding comes near to the tolerance
        run(plain_sgd(lora=LORA), scripted(), model=model, folder=tmp_path / "b")
    trained = flat(adapters_of(tmp_path / "b/checkpoint-2"))
    gap = relative(trained - before, theirs - before)
    print(f"{name}: relative difference of the adapters {gap:.1e}")
    assert (theirs - before).norm() > 0.1 and gap < 2e-6


def test_the_engine_gets_whole_weights_and_the_frozen_ones_do_not_drift(model, tmp_path):
    source = scripted()
    result = run(plain_sgd(lora=LORA), source, model=model, folder=tmp_path)
    start = dict(AutoModelForCausalLM.from_pretrained(model).named_parameters())
    assert all(weights.keys() == start.keys() for weights in source.weights)
    assert all(torch.equal(source.weights[0][n], start[n]) for n in start), "B begins at 0"
    linear = {n for n in start if n.endswith("_proj.weight")}
    moved = {n for n in start if not torch.equal(source.weights[-1][n], start[n])}
    assert moved == linear
    held = adapters_of(tmp_path / "checkpoint-2")
    for name in linear:
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        a, b = held[f"{stem}.lora_A.weight"], held[f"{stem}.lora_B.weight"]
        assert torch.equal(source.weights[-1][name], start[name] + 2.0 * (b @ a))
    assert result.model == str(tmp_path / "merged")


def test_the_result_is_a_model_folder(model, tmp_path):
    source = scripted()
    result = run(plain_sgd(lora=LORA), source, model=model, folder=tmp_path)
    saved = dict(AutoModelForCausalLM.from_pretrained(result.model).named_parameters())
    assert saved.keys() == source.weights[-1].keys()
    assert all(torch.equal(saved[n], w) for n, w in source.weights[-1].items())
    assert open_folder(result.model).tensors == open_folder(model).tensors
    assert AutoTokenizer.from_pretrained(result.model).get_vocab()


TRAINER = Trl(max_steps=4, learning_rate=3e-3, schedule="linear", save_every=1, lora=LORA)


def test_a_resumed_run_is_bit_equal_and_its_checkpoints_hold_adapters(model, tmp_path):
    whole, first, second, again = scripted(), scripted(), scripted(), scripted()
    run(TRAINER, whole, model=model, folder=tmp_path / "whole")
    cut = tmp_path / "cut"
    run(TRAINER, first, model=model, folder=cut, should_stop=lambda: len(first.metrics) == 2)
    held = {p.name for p in (cut / "checkpoint-2").iterdir()}
    assert {"adapter_model.safetensors", "optimizer.pt"} <= held
    assert "model.safetensors" not in held
    assert load(cut / "checkpoint-2")
    resumed = run(TRAINER, second, model=model, folder=cut)
    assert (resumed.updates, resumed.resumed_from) == (4, 2)
    assert all(torch.equal(second.weights[-1][n], w) for n, w in whole.weights[-1].items())
    finished = run(TRAINER, again, model=model, folder=cut)
    assert finished.model == str(cut / "merged") and again.diary == ["restored", "sync 4"]
    assert all(torch.equal(again.weights[-1][n], w) for n, w in whole.weights[-1].items())


@pytest.mark.whole
def test_a_run_that_is_killed_goes_on_to_the_same_adapters(tmp_path):
    """The same commands, in a process of its own that is killed between two checkpoints."""
    ended = {}
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
        folder = written(tmp_path / name, model=tiny_chain_sum(tmp_path / "chain"))
        asked = ("run", "experiment.yaml", "trainer.lora.rank=4")
        if name == "cut":
            process = cli.start(*asked, folder=folder)
            cli.wait_for(process, "checkpoint-4/gfcr_checkpoint.json", folder=folder)
            process.kill(), process.wait()
        said = commands.gfcr(*asked, "--json", cwd=folder)
        ended[name] = json.loads(said.stdout)
        assert re.search(r"LoRA trains [\d,]+ parameters, [\d.]+% of the model's", said.stderr)
    assert ended["whole"]["resumed_from"] == 0 and ended["cut"]["resumed_from"] >= 4
    merged = [load_file(tmp_path / n / ended[n]["model"] / "model.safetensors") for n in ended]
    assert all(torch.equal(weight, merged[1][name]) for name, weight in merged[0].items())
    assert ended["cut"]["tokens"] == ended["whole"]["tokens"]


@pytest.mark.whole
def test_the_same_seed_draws_the_same_adapters(model, tmp_path):
    one, other = scripted(), scripted()
    run(TRAINER, one, model=model, folder=tmp_path / "a")
    torch.rand(3)
    run(TRAINER, other, model=model, folder=tmp_path / "b")
    assert all(torch.equal(other.weights[-1][n], w) for n, w in one.weights[-1].items())


@pytest.mark.parametrize(
    "loss",
    [Loss(aggregation="grpo"), Loss(estimator="rloo"), Loss(off_policy="behaviour")],
    ids=["grpo", "rloo", "behaviour"],
)
def test_other_losses_train_the_adapters(model, tmp_path, loss):
    source = scripted()
    run(plain_sgd(lora=LORA), source, model=model, folder=tmp_path, loss=loss)
    assert flat(source.weights[-1]).sub(flat(source.weights[0])).norm() > 0.01
    assert all(m["grad_norm"] > 0 for m in source.metrics)


@pytest.mark.parametrize(("estimator", "size"), [("sft", 4), ("dpo", 2)])
def test_likelihoods_and_preferences_train_the_adapters(model, tmp_path, estimator, size):
    def taught(n):
        signs = [1 if estimator == "sft" or i % 2 else -1 for i in range(4 * size)]
        made = zip(signs, samples_of(groups(n, size=size)), strict=True)
        return [replace(s, advantage_T=np.float32(a) * s.rollout.mask_T) for a, s in made]

    source = Scripted(make=taught)
    trainer = plain_sgd(lora=LORA, learning_rate=0.05)
    run(trainer, source, model=model, folder=tmp_path, loss=Loss(estimator=estimator))
    assert flat(source.weights[-1]).sub(flat(source.weights[0])).norm() > 0.01
    if estimator == "dpo":  # the reference is the policy without its adapters, which begin at 0
        assert source.metrics[0]["loss"] == pytest.approx(np.log(2), abs=1e-5)
        assert source.metrics[1]["loss"] != pytest.approx(np.log(2), abs=1e-5)


def test_a_correction_sees_the_adapted_policy(model, tmp_path):
    """On-policy log-probs weigh 1: the update is the one without a correction."""
    plain, weighed = scripted(), scripted()
    run(plain_sgd(lora=LORA), plain, model=model, folder=tmp_path / "a")
    policies = iter(plain.weights)

    def own(n):
        policy = AutoModelForCausalLM.from_pretrained(model)
        policy.load_state_dict(next(policies), strict=False)
        return [with_logps(s, policy) for s in samples_of(groups(n))]

    weighed.make = own
    asked = {"correction": Truncated(cap=1.5)}
    run(plain_sgd(lora=LORA), weighed, model=model, folder=tmp_path / "b", **asked)
    assert all(m["logprob_gap"] < 1e-4 for m in weighed.metrics)
    ours, theirs = (flat(s.weights[-1]) - flat(s.weights[0]) for s in (weighed, plain))
    assert relative(ours, theirs) < 1e-4


@torch.no_grad()
def with_logps(sample, policy):
    r = sample.rollout
    ids = torch.tensor([*r.prompt.tokens, *r.tokens_T.tolist()])
    logps = policy(ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    rollout = replace(r, logprobs_T=logps[len(r.prompt.tokens) - 1 :].numpy())
    return replace(sample, rollout=rollout)


def test_an_unmodified_trainer_hands_over_merged_weights(model, tmp_path):
    synced: list[dict[str, torch.Tensor]] = []
    trainer: Any = stock_grpo(model, groups, folder=tmp_path, peft_config=config())
    batches = iter(range(9))

    def sync(weights, *, version):
        synced.append({name: weight.clone() for name, weight in weights})

    def generate(prompts, *, counts):
        return [r for group in groups(next(batches)) for r in group]

    made = make_rollout_func(generate, sync=sync)
    scored = trainer.rollout_func
    trainer.rollout_func = lambda prompts, trainer: {
        **made(prompts, trainer),
        "score": scored(prompts, trainer)["score"],
    }
    train_stock(trainer)
    start = dict(AutoModelForCausalLM.from_pretrained(model).named_parameters())
    assert len(synced) == 2 and all(weights.keys() == start.keys() for weights in synced)
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(synced[0][name], start[name])
    assert not torch.equal(synced[1][name], start[name])


def test_targets_that_the_model_has_not_are_refused(model, tmp_path):
    trainer = plain_sgd(lora={"targets": ["nothing"]})
    with pytest.raises(ConfigError, match=r"trainer\.lora=.*nothing.*not allowed for this model"):
        run(trainer, scripted(), model=model, folder=tmp_path)
    trainer = plain_sgd(lora={"targets": ["q_proj", "v_prj"]})  # of which PEFT adapts the first
    with pytest.raises(ConfigError, match=r"no module 'v_prj'\. Did you mean 'v_proj'"):
        run(trainer, scripted(), model=model, folder=tmp_path)
    trainer = plain_sgd(lora={"targets": ["embed_tokens"]})
    with pytest.raises(ConfigError, match=r"embed_tokens \(Embedding\) is no linear layer"):
        run(trainer, scripted(), model=model, folder=tmp_path)
