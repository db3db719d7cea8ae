"""A model of transformers as teacher: its log-probs, their mean, and what is no teacher."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from gfcr.control._causal_lm import logprobs_of
from gfcr.control.teacher import Teacher
from gfcr.errors import ConfigError
from gfcr.filter.reverse_kl import ReverseKl
from gfcr.generate.sample import Sample
from gfcr.pipeline import Pipeline
from gfcr.stages import Control, Follower
from gfcr.strategy import Strategy
from gfcr.tasks.codec import SPECIAL_TOKENS
from gfcr.testing import factories as make
from gfcr.train.base import TrainJob
from gfcr.train.trl import Trl
from gfcr.types import Floats, RolloutBatch, Sampling
from tests.cases import over
from tests.integration.demo_floor import Source


def save(folder: Path, alphabet: str) -> Path:
    """A tiny random model on characters, with room for 64 tokens."""
    vocab = {c: i for i, c in enumerate([*SPECIAL_TOKENS, *alphabet])}
    characters = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    splits: Any = pre_tokenizers.Split(Regex("."), "isolated")
    characters.pre_tokenizer = splits
    named = {f"{s[1:-1]}_token": s for s in SPECIAL_TOKENS}
    PreTrainedTokenizerFast(tokenizer_object=characters, **named).save_pretrained(folder)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1}
    config = LlamaConfig(
        vocab_size=len(vocab),
        intermediate_size=16,
        num_attention_heads=2,
        initializer_range=0.7,
        max_position_embeddings=64,
        **sizes,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("teacher"), make.CODEC.alphabet)


@cache
def loaded(model: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(model, dtype=torch.float32).eval()


def laws(model: Path, tokens: list[int], heat: float = 1.0) -> Floats:
    """The law of each next token, shape (token, vocabulary), one sequence at a time."""
    lm = loaded(model)
    with torch.inference_mode():
        return (lm(torch.tensor([tokens])).logits[0] / heat).log_softmax(-1).numpy()


def plan(model: Path, *, rate: float = 0.0, **controls: Control) -> Strategy:
    teacher = Teacher(model=str(model), batch_tokens=200, rate=rate)
    return Strategy(
        name="t",
        generate=Sample(),
        filters={"distill": ReverseKl()},
        controls={"teacher": teacher, **controls},
        group_size=4,
    )


def run(model: Path, **changes: Any) -> tuple[Pipeline, RolloutBatch]:
    pipeline = make.pipeline(plan(model), **{"prompts": 16, **changes})
    return pipeline, pipeline.next_batch()


@dataclass(kw_only=True)
class Keeps(Control, Follower):
    """Keeps every policy that the engine was given."""

    policies: dict[int, dict[str, Floats]] = field(
        init=False, default_factory=dict[int, dict[str, Floats]]
    )

    def follow(self, weights: Mapping[str, torch.Tensor], *, version: int) -> None:
        self.policies[version] = {n: w.detach().numpy().copy() for n, w in weights.items()}


def averaged(policies: Mapping[int, Mapping[str, Floats]], *, rate: float) -> dict[str, Floats]:
    """The closed form: of n policies after the first, the k-th counts rate (1 - rate)^(n - k)."""
    last = max(policies)
    shares = {k: rate * (1 - rate) ** (last - k) for k in policies if k} | {0: (1 - rate) ** last}
    return {n: sum(shares[k] * p[n] for k, p in policies.items()) for n in policies[0]}  # pyright: ignore[reportReturnType]


def teacher_of(pipeline: Pipeline) -> Any:
    return pipeline.strategy.controls["teacher"]


def check_average(found: Mapping[str, Floats], wanted: Mapping[str, Floats]) -> None:
    assert found.keys() == wanted.keys()
    for name, weight in found.items():
        np.testing.assert_allclose(weight, wanted[name], atol=1e-6)


@over("batch_tokens", [1, 20, 1000])
@over("heat", [0.0, 0.7, 1.0])
def test_log_probs_are_those_of_each_sequence_alone(
    model: Path, batch_tokens: int, heat: float
) -> None:
    rng = np.random.default_rng(0)
    sizes = [(3, 5), (1, 9), (4, 1), (2, 2), (7, 6)]
    pairs = [tuple(rng.integers(4, 20, n).tolist() for n in each) for each in sizes]
    own = {"model": str(model), "device": "cpu", "batch_tokens": batch_tokens}
    found = logprobs_of(pairs, **own, temperature=heat)
    for (head, tail), got in zip(pairs, found, strict=True):
        every = laws(model, [*head, *tail], heat or 1.0)[len(head) - 1 : -1]
        np.testing.assert_allclose(got, every[np.arange(len(tail)), tail], atol=1e-5)


def test_advantages_are_on_average_minus_the_exact_divergence_of_each_token(model: Path) -> None:
    pipeline, batch = run(model)
    engine: Any = pipeline.engine
    gaps: list[float] = []
    divergences: list[float] = []
    for sample in batch.samples:
        head, tail = [*sample.rollout.prompt.tokens], sample.rollout.tokens_T.tolist()
        every = laws(model, [*head, *tail])[len(head) - 1 : -1]
        for t, q in enumerate(every):
            p = engine.probabilities((*head, *tail[:t]), sampling=Sampling()).astype(float)
            some = p > 0
            divergences.append(float((p[some] * (np.log(p[some]) - q[some])).sum()))
            gaps.append(float(sample.advantage_T[t]) + divergences[-1])
    error = np.std(gaps) / len(gaps) ** 0.5
    assert len(gaps) > 300 and abs(np.mean(gaps)) < 4 * error < np.mean(divergences) / 4


def test_what_is_longer_than_the_teacher_can_read_is_rejected(model: Path) -> None:
    pipeline, batch = run(model, max_tokens=200)
    for group in batch.groups:
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            long = len(rollout.prompt.tokens) + len(rollout) > 64
            assert signal.rejected == ("no_teacher" if long else None)
    assert pipeline.tokens()["rejected:no_teacher"] > 0 and batch.samples


def test_another_vocabulary_or_no_model_ends_the_run(model: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "other", make.CODEC.alphabet[::-1])
    with pytest.raises(ConfigError, match="has another vocabulary than the run's model: token"):
        run(other)
    fewer = save(tmp_path / "fewer", make.CODEC.alphabet[:8])
    with pytest.raises(ConfigError, match="is None to it"):
        run(fewer)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        run(tmp_path)


@over("rate", [0.25, 1.0])
def test_a_teacher_that_follows_is_the_average_of_the_policies(model: Path, rate: float) -> None:
    keeps = Keeps()
    pipeline = make.pipeline(plan(model, rate=rate, keeps=keeps), prompts=4)
    own = dict(loaded(model).named_parameters())
    for version in range(4):
        torch.manual_seed(version)
        noise = 0.3 * min(version, 1)
        pipeline.sync(
            ((n, w.detach() + noise * torch.randn_like(w)) for n, w in own.items()), version=version
        )
    wanted = averaged(keeps.policies, rate=rate)
    pipeline.sync(((n, w.detach() + 1) for n, w in own.items()), version=3)  # as resumed runs do
    check_average(teacher_of(pipeline).average, wanted)
    batch = pipeline.next_batch()
    taught = LlamaForCausalLM(loaded(model).config).eval()
    taught.load_state_dict({n: torch.from_numpy(w) for n, w in wanted.items()}, strict=False)
    for sample in batch.samples:
        tokens = [*sample.rollout.prompt.tokens, *sample.rollout.tokens_T.tolist()]
        with torch.inference_mode():
            law = taught(torch.tensor([tokens])).logits[0].log_softmax(-1).numpy()
        said_T = law[np.arange(len(tokens) - 1), tokens[1:]][-len(sample.rollout) :]
        np.testing.assert_allclose(
            sample.advantage_T, said_T - sample.rollout.logprobs_T, atol=1e-4
        )


def test_an_average_is_that_of_a_run_that_was_never_stopped(model: Path, tmp_path: Path) -> None:
    keeps, runs = Keeps(), dict[str, Pipeline]()
    for name, ends in {"whole": [3], "halves": [2, 3]}.items():
        for steps in ends:
            parts = {"keeps": keeps} if name == "whole" else {}
            made = runs[name] = make.pipeline(plan(model, rate=0.5, **parts), prompts=4)
            job = TrainJob(
                model=str(model),
                source=Source(pipeline=made),
                loss=made.strategy.loss,
                seed=0,
                folder=tmp_path / name,
                sampling=made.sampling,
            )
            trained = Trl(max_steps=steps, micro_batches=2, save_every=1, learning_rate=1e-2)
            assert trained.train(job).updates == steps
    wanted = averaged(keeps.policies, rate=0.5)
    first = averaged({0: keeps.policies[0]}, rate=0.5)
    assert any(np.abs(w - first[n]).max() > 1e-3 for n, w in wanted.items())
    for made in runs.values():
        assert teacher_of(made).version == 3
        check_average(teacher_of(made).average, wanted)


def test_weights_that_are_not_the_teacher_s_end_the_run(model: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"teacher\.model=.* cannot be loaded"):
        make.pipeline(plan(tmp_path, rate=0.5)).sync([("w", torch.zeros(1))], version=0)
    pipeline = make.pipeline(plan(model, rate=0.5))
    with pytest.raises(ConfigError, match=r"teacher\.rate=0\.5 .* has others \(lm_head"):
        pipeline.sync([("w", torch.zeros(1))], version=0)
