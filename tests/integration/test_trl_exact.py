"""The seam's update equals stock TRL's on the same rollouts (about 15 s alone)."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from gfcr.correction.truncated import Truncated
from gfcr.types import Loss, Sampling
from tests.integration.trl_script import (
    LEARNING_RATE,
    Scripted,
    change,
    dr_grpo_advantages,
    groups,
    grpo_advantages,
    plain_sgd,
    relative,
    rloo_advantages,
    run,
    samples_of,
    tiny_policy,
)
from tests.integration.trl_stock import stock_grpo, stock_rloo, train_stock

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


def seam(
    model, folder, *, formula, loss=None, make=groups, sampling=None, correction=None, **changes
):
    source = Scripted(make=lambda n: samples_of(make(n), formula=formula))
    asked = {"loss": loss, "sampling": sampling, "correction": correction}
    run(plain_sgd(**changes), source, model=model, folder=folder, **asked)
    return change(source)


@pytest.mark.parametrize(
    ("aggregation", "formula", "scale", "constant", "beta"),
    [
        ("grpo", grpo_advantages, "group", 256, 1.0),
        ("dapo", grpo_advantages, "group", 256, 0.0),
        ("dr_grpo", dr_grpo_advantages, "none", 12, 1.0),
    ],
)
def test_grpo_update_is_trl_s_own(model, tmp_path, aggregation, formula, scale, constant, beta):
    stock = stock_grpo(
        model,
        groups,
        folder=tmp_path / "a",
        loss_type=aggregation,
        scale_rewards=scale,
        max_completion_length=constant,
        temperature=0.8,
        beta=beta,
    )
    ours = seam(
        model,
        tmp_path / "b",
        formula=formula,
        loss=Loss(aggregation=aggregation),
        sampling=Sampling(max_tokens=constant, temperature=0.8),
        beta=beta,
    )
    assert relative(ours, train_stock(stock)) < TOLERANCE


def test_rloo_update_is_trl_s_own(model, tmp_path):
    stock = train_stock(stock_rloo(model, groups, folder=tmp_path / "a"))
    ours = seam(model, tmp_path / "b", formula=rloo_advantages, loss=Loss(estimator="rloo"))
    assert relative(ours, stock) < TOLERANCE


def test_adamw_with_clipping_and_kl_is_trl_s_own(model, tmp_path):
    shared = {"learning_rate": 1e-3, "max_grad_norm": 0.1, "beta": 0.05}
    stock = stock_grpo(
        model, groups, folder=tmp_path / "a", optim="adamw_torch", adam_beta2=0.99, **shared
    )
    loss = Loss(aggregation="dapo")
    ours = seam(
        model,
        tmp_path / "b",
        formula=grpo_advantages,
        loss=loss,
        optimizer="adamw_torch",
        **shared,
    )
    # Adam divides by |gradient|, which blows up rounding where the gradient is nearly zero.
    assert relative(ours, train_stock(stock)) < 1e-2


def masked_groups(seed):
    made = groups(seed)
    rng = np.random.default_rng(seed + 100)
    for group in made:
        for number, r in enumerate(group):
            mask_T = r.mask_T.copy()
            mask_T[rng.integers(0, len(r))] = False
            group[number] = replace(r, mask_T=mask_T)
    return made


def test_masked_environment_tokens_are_trl_s_own(model, tmp_path):
    stock = train_stock(stock_grpo(model, masked_groups, folder=tmp_path / "a"))
    loss = Loss(aggregation="dapo")
    ours = seam(model, tmp_path / "b", formula=grpo_advantages, loss=loss, make=masked_groups)
    assert relative(ours, stock) < TOLERANCE
    unmasked = seam(model, tmp_path / "c", formula=grpo_advantages, loss=loss)
    assert relative(unmasked, stock) > 0.01


def test_truncated_importance_weights_are_trl_s_own(model, tmp_path):
    cap = 1.5
    stock = stock_grpo(
        model,
        groups,
        folder=tmp_path / "a",
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=cap,
    )
    # TRL corrects rollouts of its own vLLM only: it is told that these are.
    stock.use_vllm, stock._last_loaded_step = True, -1
    stock.vllm_generation = SimpleNamespace(sync_weights=lambda: None)
    stock_change = train_stock(stock)
    corrected, ignored = (
        seam(model, tmp_path / name, formula=grpo_advantages, correction=correction)
        for name, correction in (("truncated", Truncated(cap=cap)), ("none", None))
    )
    assert relative(corrected, stock_change) < TOLERANCE
    assert relative(ignored, stock_change) > 0.1


def test_behaviour_clips_against_the_sampling_policy(model, tmp_path):
    """One step against the PPO formula written out, on the token-mean loss."""
    made = groups(7)
    low, high = 0.2, 0.3
    loss = Loss(off_policy="behaviour", clip_low=low, clip_high=high)
    ours = seam(
        model,
        tmp_path / "a",
        formula=grpo_advantages,
        loss=loss,
        make=lambda n: made,
        max_steps=1,
    )
    assert relative(ours, ppo_step(model, samples_of(made), low=low, high=high)) < TOLERANCE


def ppo_step(model, samples, *, low, high):
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    total, count = torch.zeros(()), 0
    for s in samples:
        ids = torch.tensor([*s.rollout.prompt.tokens, *s.rollout.tokens_T.tolist()])
        logps = policy(ids[None]).logits[0, :-1].log_softmax(-1)
        logps = logps.gather(1, ids[1:, None])[len(s.rollout.prompt.tokens) - 1 :, 0]
        ratio = (logps - torch.tensor(s.rollout.logprobs_T)).exp()
        advantage = torch.tensor(s.advantage_T)
        clipped = ratio.clamp(1 - low, 1 + high)
        total = total - torch.minimum(ratio * advantage, clipped * advantage).sum()
        count += len(s.rollout)
    (total / count).backward()
    named = dict(policy.named_parameters())
    return torch.cat([-LEARNING_RATE * named[n].grad.flatten() for n in sorted(named)])
