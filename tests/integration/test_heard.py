"""Failures on the real stack: the message, the exit code, and weights that are unharmed."""

from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gfcr import strategy as strategies
from gfcr.drop_in.encode import TrlCodec
from gfcr.drop_in.rewards import TrlRewards, rows_of
from gfcr.engine.vllm import Vllm
from gfcr.errors import EngineError, PartError, TaskError, TrainingError
from gfcr.loop.scoring import verify_safely
from gfcr.pipeline import Pipeline
from gfcr.stages import Filter
from gfcr.tasks.base import Problems, Task, Verdict
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.codec import HfCodec
from gfcr.train import checkpoint
from gfcr.train.trl import Trl
from gfcr.types import Loss, Sampling
from tests.cases import over
from tests.integration.tiny_model import tiny_chain_sum
from tests.integration.trl_script import Scripted, groups, plain_sgd, run, samples_of, tiny_policy
from tests.integration.trl_stock import arguments


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


def _advantage(value):
    def spoil(sample):
        return replace(sample, advantage_T=np.full_like(sample.advantage_T, value))

    return spoil


def _logprob(value):
    def spoil(sample):
        logps_T = np.full_like(sample.rollout.logprobs_T, value)
        return replace(sample, rollout=replace(sample.rollout, logprobs_T=logps_T))

    return spoil


SPOILS = {
    "nan advantage": (_advantage(np.nan), {}, r"loss of micro-batch \d of 4 is nan \(rollouts .*0"),
    "infinite advantage": (_advantage(-np.inf), {}, "loss of micro-batch"),
    "gradients that overflow": (_advantage(3e37), {}, r"gradient \(rollouts|grad_norm is inf"),
    "clipped to nothing": (
        _advantage(3e37),
        {"max_grad_norm": 1.0},
        r"gradient \(rollouts|grad_norm is inf",
    ),
    "infinite log-prob": (_logprob(-np.inf), {"off_policy": "behaviour"}, r"gradient \(rollouts"),
}


@over("case", SPOILS)
def test_what_is_not_finite_stops_before_checkpoint_and_engine(model, tmp_path, case):
    spoil, settings, said = SPOILS[case]
    loss = Loss(off_policy=settings.get("off_policy", "none"))
    settings = {k: v for k, v in settings.items() if k != "off_policy"}
    settings |= {"max_steps": 3, "save_every": 1}

    def make(number, *, spoilt=True):
        first, *others = samples_of(groups(number))
        return [spoil(first) if spoilt and number == 2 else first, *others]

    source = Scripted(make=make)
    with pytest.raises(TrainingError, match=rf"update 3: .*({said})"):
        run(plain_sgd(**settings), source, model=model, folder=tmp_path, loss=loss)
    assert source.diary[-1] == "batch 2", "neither reported, nor saved, nor handed over"
    assert all(t.isfinite().all() for weights in source.weights for t in weights.values())
    saved = checkpoint.newest(tmp_path)
    assert checkpoint.step_of(saved) == 2
    held = load_file(saved / "model.safetensors")
    assert all(torch.equal(t, held[n]) for n, t in source.weights[-1].items())
    again = Scripted(make=lambda number: make(number, spoilt=False))
    result = run(plain_sgd(**settings), again, model=model, folder=tmp_path, loss=loss)
    assert (result.updates, result.resumed_from) == (3, 2)


def test_weights_that_overflow_in_the_step_are_not_saved(model, tmp_path, monkeypatch):
    step, source = torch.optim.SGD.step, Scripted(make=lambda number: samples_of(groups(number)))

    def overflowing(self, *args, **kwargs):
        step(self, *args, **kwargs)
        if source.served == 2:
            self.param_groups[0]["params"][0].data[0] = float("inf")

    monkeypatch.setattr(torch.optim.SGD, "step", overflowing)
    with pytest.raises(TrainingError, match=r"update 2: a weight is not finite \(1 of "):
        run(plain_sgd(save_every=1), source, model=model, folder=tmp_path)
    assert checkpoint.step_of(checkpoint.newest(tmp_path)) == 1


def test_a_model_that_is_not_finite_is_refused_before_anything_is_generated(model, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    policy = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        policy.model.norm.weight[0] = float("nan")
    policy.save_pretrained(tmp_path / "bad")
    AutoTokenizer.from_pretrained(model).save_pretrained(tmp_path / "bad")
    source = Scripted(make=lambda number: samples_of(groups(number)))
    with pytest.raises(TrainingError, match=r"weight is not finite \(1 of .*'model.norm.weight'"):
        run(plain_sgd(), source, model=str(tmp_path / "bad"), folder=tmp_path / "run")
    assert source.diary == []


# ---------------------------------------------------------------- the loop on vLLM and TRL


@dataclass(kw_only=True)
class Judge(Task):
    """Chain sums whose verifier answers what it is told to."""

    reward: Any
    long: bool = False

    def problems(self, codec):
        found = ChainSum(num_train=16, num_heldout=4).problems(codec)
        if not self.long:
            return found
        first, *others = found.train
        return Problems(train=[replace(first, tokens=first.tokens * 40), *others], heldout=[])

    def verify(self, prompt, *, text):
        return Verdict(reward=self.reward(text))


@dataclass(kw_only=True)
class Spoil(Filter):
    """Gives an advantage that is no number in the second update."""

    def apply(self, group, *, view):
        return group.with_advantages([np.nan] * len(group.rollouts)) if view.step else group


@dataclass(kw_only=True)
class Source:
    """A pipeline as a trainer sees it."""

    pipeline: Pipeline
    batches: list[Any] = field(default_factory=list)

    def next_batch(self):
        self.batches.append(self.pipeline.next_batch())
        return self.batches[-1]

    def sync(self, weights, *, version):
        self.pipeline.sync(weights, version=version)

    def updated(self, *, step, metrics):
        pass

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    """A small policy and an engine on it."""
    folder = tiny_chain_sum(tmp_path_factory.mktemp("policy"))
    with closing(Vllm(kv_cache_gib=0.25).start(model=folder, seed=0)) as engine:
        yield folder, engine


def trained(floor, folder, *, task, strategy=None, max_tokens=24):
    model, engine = floor
    codec = HfCodec(model)
    pipeline = Pipeline(
        strategy or strategies.load("grpo", group_size=4),
        engine=engine,
        task=task,
        train=task.problems(codec).train,
        codec=codec,
        prompts=4,
        sampling=Sampling(max_tokens=max_tokens),
        seed=0,
    )
    source = Source(pipeline=pipeline)
    with closing(pipeline):
        try:
            run(Trl(max_steps=2, save_every=1), source, model=model, folder=folder)
        finally:
            assert not engine.step(), "nothing is left running"
    return source.batches


def sound(folder, *, step):
    """Whether the newest checkpoint is the one after `step` updates, with finite weights."""
    saved = checkpoint.newest(folder)
    weights = load_file(saved / "model.safetensors").values()
    return checkpoint.step_of(saved) == step and all(t.isfinite().all() for t in weights)


@pytest.mark.vllm
def test_a_verifiers_nan_costs_its_rollouts_and_trains_on_the_others(floor, tmp_path):
    task = Judge(reward=lambda text: float("nan") if len(text) % 3 else float(len(text)))
    batches = trained(floor, tmp_path, task=task)
    for batch in batches:
        lost = [r for g in batch.groups for r in g.rollouts if len(r.text) % 3]
        assert lost and all("gave the reward nan" in r.error for r in lost)
        assert batch.metrics["unscorable/VerdictError"] == len(lost)
        assert len(batch.samples) == 16 - len(lost)
    assert sound(tmp_path, step=2)


@pytest.mark.vllm
def test_a_parts_nan_stops_the_run_and_spares_the_checkpoint(floor, tmp_path):
    plan = strategies.load("grpo", group_size=4)
    plan = replace(plan, filters={**plan.filters, "spoil": Spoil()})
    with pytest.raises(PartError, match=r"strategy\.filters\.spoil: group 1:\d.* is nan"):
        trained(floor, tmp_path, task=Judge(reward=lambda text: len(text) % 2), strategy=plan)
    assert sound(tmp_path, step=1)


@pytest.mark.vllm
def test_a_prompt_that_leaves_no_room_stops_the_run(floor, tmp_path):
    with pytest.raises(TaskError, match=r"prompt 'chain_sum/.*' has \d+ tokens, .*max_length=256"):
        trained(floor, tmp_path, task=Judge(reward=len, long=True))


@pytest.mark.vllm
def test_a_request_that_vllm_refuses_stops_the_run(floor, tmp_path, monkeypatch):
    other = partial(floor[1]._check, vocab=3)  # a tokenizer that is not the model's
    monkeypatch.setattr(floor[1], "_check", other)
    with pytest.raises(EngineError, match="is the tokenizer the model's own"):
        trained(floor, tmp_path, task=Judge(reward=len))


def test_what_a_reward_function_gives_is_heard(model, tmp_path):
    from datasets import Dataset
    from trl import GRPOConfig

    from gfcr.drop_in import GRPOTrainer

    def none(completions, **_):
        return [None] * len(completions)

    def told(completions, **_):
        numbers = {"": None, "a": 1.5, "b": np.nan, "c": np.inf, "d": 5.0}
        return [numbers[text] for text in completions]

    async def later(completions, **_):
        return [np.nan if text == "d" else 0.5 for text in completions]

    settings = arguments(tmp_path, rollouts=8, size=4, max_completion_length=8, max_steps=1)
    trainer = GRPOTrainer(
        model,
        reward_funcs=[none, told, later],
        args=GRPOConfig(**settings),
        train_dataset=Dataset.from_dict({"prompt": ["a", "b"]}),
    )
    rows = rows_of(trainer.train_dataset, trainer=trainer)
    codec = TrlCodec(HfCodec(model), trainer=trainer)
    task = TrlRewards(trainer=trainer, rows=rows, codec=codec)
    words = {"'told' gave nan": 3, "'told' gave inf": 4, "'later' gave nan": 5}
    for right, token in {0.5: 1, 2.0: 2, **words}.items():
        verdict = verify_safely(task, rows[0], codec.decode([token]))
        assert verdict.reward == right if isinstance(right, float) else right in verdict.error
        assert trainer.reward_funcs == [none, told, later]
