"""SFT and DPO through TRL's own trainers: the same steps as TRL takes on the same data."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from gfcr.errors import ConfigError
from gfcr.types import Loss, Sample
from tests.integration.trl_script import (
    Scripted,
    change,
    groups,
    plain_sgd,
    relative,
    run,
    tiny_policy,
)

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


def logps(policy, sample):
    ids = torch.tensor([*sample.rollout.prompt.tokens, *sample.rollout.tokens_T.tolist()])
    found = policy(ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0]
    own = found[len(sample.rollout.prompt.tokens) - 1 :]
    return own[torch.tensor(sample.rollout.mask_T)]


def stepped(model, loss_of, *, rate):
    """The change of the weights by one SGD step on a loss that is written out."""
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    loss_of(policy).backward()
    held = dict(policy.named_parameters())
    return torch.cat([-rate * held[name].grad.flatten() for name in sorted(held)])


def rows(signs):
    """Samples of the scripted groups with an advantage each."""
    found = []
    for group in groups(3, size=len(signs)):
        for rollout, sign in zip(group, signs, strict=True):
            found.append(Sample(rollout=rollout, advantage_T=np.where(rollout.mask_T, sign, 0.0)))
    return found


def one_step(model, folder, samples, *, loss):
    trainer = plain_sgd(max_steps=1)
    source = Scripted(make=lambda n: samples)
    assert run(trainer, source, model=model, folder=folder, loss=loss).updates == 1
    return change(source), trainer.learning_rate


def test_sft_is_the_mean_likelihood_of_all_kept_tokens(model, tmp_path):
    samples = rows([1.0] * 4)
    ours, rate = one_step(model, tmp_path, samples, loss=Loss(estimator="sft"))

    def written_out(policy):
        every = torch.cat([logps(policy, s) for s in samples])
        return -every.mean()

    assert relative(ours, stepped(model, written_out, rate=rate)) < TOLERANCE


def test_sft_refuses_advantages_that_it_would_ignore(model, tmp_path):
    with pytest.raises(ConfigError, match="give the rest the advantage 1"):
        one_step(model, tmp_path, rows([0.5] * 4), loss=Loss(estimator="sft"))


def test_dpo_is_the_mean_over_pairs_of_its_formula(model, tmp_path):
    samples, beta = rows([1.0, -1.0]), 0.3
    ours, rate = one_step(model, tmp_path, samples, loss=Loss(estimator="dpo", beta=beta))
    reference = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def written_out(policy):
        losses = []
        for chosen, rejected in zip(samples[::2], samples[1::2], strict=True):
            with torch.no_grad():
                base = logps(reference, chosen).sum() - logps(reference, rejected).sum()
            gap = logps(policy, chosen).sum() - logps(policy, rejected).sum() - base
            losses.append(-torch.nn.functional.logsigmoid(beta * gap))
        return torch.stack(losses).mean()

    assert relative(ours, stepped(model, written_out, rate=rate)) < TOLERANCE


@pytest.mark.parametrize("loss", [Loss(estimator="sft"), Loss(estimator="dpo")])
def test_an_update_with_nothing_to_learn_leaves_the_weights_alone(model, tmp_path, loss):
    ours, _ = one_step(model, tmp_path, [], loss=loss)
    assert not ours.any()
