"""What the seam does with a batch, through real trainers on a tiny model (about 15 s alone)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from gfcr.correction.truncated import Truncated
from gfcr.errors import ConfigError
from gfcr.train import trl
from gfcr.train.trl import Trl
from gfcr.train.trl_checks import optimizers
from gfcr.types import Loss, Sample
from tests.integration.trl_script import (
    Scripted,
    change,
    groups,
    plain_sgd,
    relative,
    rollout,
    run,
    samples_of,
    tiny_policy,
)

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


def step(model, folder, samples, **changes):
    """The change of the weights by one SGD step on `samples`."""
    asked = {key: changes.pop(key, None) for key in ("loss", "correction")}
    source = Scripted(make=lambda n: samples)
    result = run(plain_sgd(max_steps=1, **changes), source, model=model, folder=folder, **asked)
    assert result.updates == 1
    return change(source)


def mixture(folder):
    """A policy of experts, whose own loss asks them to take as many tokens each."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 16}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    ends = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    config = Qwen3MoeConfig(
        vocab_size=32, num_key_value_heads=2, router_aux_loss_coef=1.0, **sizes, **experts, **ends
    )
    path = tiny_policy(folder)
    Qwen3MoeForCausalLM(config).save_pretrained(path)
    return path


def tokens(samples):
    return sum(int(s.rollout.mask_T.sum()) for s in samples)


def unequal(seed=3):
    """Groups of 2 to 6 rollouts."""
    rng = np.random.default_rng(seed)
    made = [[rollout(rng, prompt=p, member=m) for m in range(2 + p)] for p in range(5)]
    return samples_of(made)


def test_source_is_called_in_order(model, tmp_path, capfd, monkeypatch):
    kind, config = trl.classes("grpo")

    def seeing_two_gpus(**given):
        args = config(**given)
        args._n_gpu = 2
        return args

    monkeypatch.setattr(trl, "classes", lambda estimator: (kind, seeing_two_gpus))
    source = Scripted(make=lambda n: samples_of(groups(n)))
    result = run(plain_sgd(), source, model=model, folder=tmp_path)
    assert source.diary == [
        *("sync 0", "batch 0", "updated 1"),
        *("sync 1", "batch 1", "updated 2", "state", "sync 2"),
    ]
    assert (result.updates, result.resumed_from) == (2, 0)
    written = capfd.readouterr()
    assert written.out == "" and "%|" not in written.err
    for metrics in source.metrics:
        assert metrics["skipped"] == 0 and metrics["train_s"] > 0 and metrics["sync_s"] >= 0
        assert 0 < metrics["entropy"] < np.log(20) and metrics["grad_norm"] > 0
        assert {"loss", "clip_ratio", "off_policy_ratio", "learning_rate"} <= metrics.keys()


@pytest.mark.parametrize("count", [1, 3, 700])
def test_any_number_of_samples_makes_an_update(model, tmp_path, count):
    samples = [s for n in range(count // 16 + 1) for s in samples_of(groups(n))][:count]
    assert step(model, tmp_path, samples).norm() > 0


@pytest.mark.parametrize(
    "loss",
    [Loss(aggregation="grpo"), Loss(), Loss(aggregation="dr_grpo"), Loss(estimator="rloo")],
    ids=["grpo", "dapo", "dr_grpo", "rloo"],
)
def test_the_cut_into_micro_batches_does_not_matter(model, tmp_path, loss):
    samples = unequal()
    few = step(model, tmp_path / "a", samples, loss=loss, micro_batches=2)
    many = step(model, tmp_path / "b", samples[::-1], loss=loss, micro_batches=7)
    assert relative(many, few) < 3 * TOLERANCE


@pytest.mark.parametrize("loss", [Loss(aggregation="grpo"), Loss(estimator="rloo")])
def test_fewer_samples_than_micro_batches_weigh_the_same(model, tmp_path, loss):
    samples = unequal()[:3]
    padded = step(model, tmp_path / "a", samples, loss=loss, micro_batches=5)
    full = step(model, tmp_path / "b", samples, loss=loss, micro_batches=2)
    assert relative(padded, full) < 3 * TOLERANCE


def test_a_dropped_group_is_one_that_never_was_up_to_the_token_count(model, tmp_path):
    kept, dead = samples_of(groups(1, count=3)), samples_of(groups(2, count=1))
    dead = [replace(s, advantage_T=0 * s.advantage_T) for s in dead]
    dropped = step(model, tmp_path / "a", kept)
    included = step(model, tmp_path / "b", kept + dead)
    ratio = tokens(kept) / tokens(kept + dead)
    assert relative(included, dropped * ratio) < TOLERANCE
    assert not step(mixture(tmp_path / "experts"), tmp_path / "c", dead).any()


def test_advantages_per_token_add_up(model, tmp_path):
    samples = samples_of(groups(4))
    parity = [np.arange(len(s.rollout)) % 2 for s in samples]
    even = [
        replace(s, advantage_T=s.advantage_T * (1 - p))
        for s, p in zip(samples, parity, strict=True)
    ]
    odd = [replace(s, advantage_T=s.advantage_T * p) for s, p in zip(samples, parity, strict=True)]
    first, second = step(model, tmp_path / "a", even), step(model, tmp_path / "b", odd)
    assert relative(first + second, step(model, tmp_path / "c", samples)) < 2 * TOLERANCE
    assert relative(first, second) > 0.1


def test_environment_tokens_have_no_gradient(model, tmp_path):
    rng = np.random.default_rng(0)
    mask = [True, True, False, False, True, True]
    rollouts = [rollout(rng, prompt=p, member=0, mask=mask) for p in range(4)]
    quiet = [Sample(rollout=r, advantage_T=np.where(r.mask_T, 1, 0)) for r in rollouts]
    loud = [Sample(rollout=r, advantage_T=np.where(r.mask_T, 1, 99)) for r in rollouts]
    asked = ({}, {"correction": Truncated()}, {"loss": Loss(off_policy="behaviour")})
    for number, own in enumerate(asked):
        a = step(model, tmp_path / f"{number}a", quiet, **own)
        b = step(model, tmp_path / f"{number}b", loud, **own)
        assert torch.equal(a, b)


def test_an_update_without_samples_leaves_weights_and_momentum_alone(model, tmp_path):
    trainer = Trl(max_steps=3, learning_rate=1e-2, weight_decay=0.1)
    batches = [samples_of(groups(1)), [], samples_of(groups(2))]
    gap = Scripted(make=lambda n: batches[n])
    result = run(trainer, gap, model=model, folder=tmp_path / "a")
    assert result.updates == 3
    assert [m["skipped"] for m in gap.metrics] == [0, 1, 0]
    assert all(torch.equal(gap.weights[1][n], gap.weights[2][n]) for n in gap.weights[1])
    none = Scripted(make=lambda n: [batches[0], batches[2]][n])
    run(replace(trainer, max_steps=2), none, model=model, folder=tmp_path / "b")
    assert torch.equal(change(gap), change(none))


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_the_end_of_the_source_ends_training(model, tmp_path, updates):
    source = Scripted(make=lambda n: samples_of(groups(n)), stop_after=updates)
    result = run(plain_sgd(max_steps=9), source, model=model, folder=tmp_path)
    assert result.updates == updates == len(source.metrics)
    assert source.diary[-2:] == ["none", "state"]
    assert result.model == str(tmp_path / f"checkpoint-{updates}")
    full = Scripted(make=lambda n: samples_of(groups(n)))
    run(plain_sgd(max_steps=max(updates, 1)), full, model=model, folder=tmp_path / "full")
    assert all(
        torch.equal(source.weights[-1][n], full.weights[updates][n]) for n in full.weights[0]
    )


def test_an_optimizer_is_one_that_transformers_knows(model, tmp_path):
    from transformers.training_args import OptimizerNames

    assert optimizers() == tuple(name.value for name in OptimizerNames)
    with pytest.raises(ConfigError, match=r"unknown trainer\.optimizer 'sgdd'"):
        step(model, tmp_path, unequal(), optimizer="sgdd")


def test_rloo_refuses_what_it_cannot_compute(model, tmp_path):
    loss = Loss(estimator="rloo")
    rng = np.random.default_rng(0)
    masked = rollout(rng, prompt=0, member=0, mask=[True, False, True])
    cases = {
        "environment tokens": Sample(rollout=masked, advantage_T=np.float32([1, 0, 1])),
        "one advantage a rollout": Sample(
            rollout=replace(masked, mask_T=np.ones(3, np.bool_)),
            advantage_T=np.float32([1, 2, 1]),
        ),
    }
    for words, sample in cases.items():
        with pytest.raises(ConfigError, match=words):
            step(model, tmp_path, [sample], loss=loss)


def test_the_log_prob_gap_tells_a_stale_engine(model, tmp_path):
    """Zero for log-probs of the policy itself, and the ratio is one."""
    from transformers import AutoModelForCausalLM

    from tests.integration.tiny_model import reference_logprobs

    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)

    def own(sample):
        r = sample.rollout
        ids = [*r.prompt.tokens, *r.tokens_T.tolist()]
        logps = reference_logprobs(policy, ids)[len(r.prompt.tokens) - 1 :].numpy()
        return replace(sample, rollout=replace(r, logprobs_T=logps))

    source = Scripted(make=lambda n: [own(s) for s in samples_of(groups(1))])
    run(plain_sgd(max_steps=2), source, model=model, folder=tmp_path)
    on_policy, stale = source.metrics
    assert on_policy["logprob_gap"] < 1e-4
    assert on_policy["off_policy_ratio"] == pytest.approx(1, abs=1e-4)
    assert stale["logprob_gap"] > 0.01
