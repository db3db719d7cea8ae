"""Strategies on one real engine: a demo model and its task, with a policy for each version."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from gfcr import models
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.codec import HfCodec
from gfcr.tasks.programs import Programs
from gfcr.train.base import TrainJob
from gfcr.types import Prompt, Rollout, RolloutBatch, Sampling

RATES = (0.5, 0.0, 0.75, 1.0, 0.25)


def mixed(prompt: Prompt) -> float:
    """A share of right answers for each prompt: never, always and between."""
    return RATES[sum(map(ord, prompt.text)) % len(RATES)]


@final
@dataclass(kw_only=True)
class Decided(Task):
    """A task whose rewards are decided before anything is sampled.

    Of a prompt's answers, in the order in which they end, a share is right, the first one before
    others, whatever they say: another processor, or another model, samples other answers and gets
    the same rewards.
    """

    reward_range = (0.0, 1.0)

    task: Task
    rate: Callable[[Prompt], float]
    answered: Counter[str] = field(default_factory=Counter[str])

    def problems(self, codec: Codec) -> Problems:
        return self.task.problems(codec)

    def at_level(self, codec: Codec, *, level: int, seed: int) -> Prompt:
        return self.task.at_level(codec, level=level, seed=seed)

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        before, rate = self.answered[prompt.id], self.rate(prompt)
        self.answered[prompt.id] += 1
        return Verdict(reward=float(ceil((before + 1) * rate) - ceil(before * rate)))


@dataclass(kw_only=True)
class Floor:
    """An engine on a demo model."""

    name: str
    """Of the model."""
    model: Path
    engine: VllmEngine
    codec: HfCodec
    policy: Any
    noise: dict[str, torch.Tensor] = field(default_factory=dict)

    def weights(self, version: int) -> Iterator[tuple[str, torch.Tensor]]:
        """Policy `version`: the model, each version a little further off."""
        for name, weight in self.policy.named_parameters():
            if name not in self.noise:
                generator = torch.Generator().manual_seed(len(self.noise))
                self.noise[name] = torch.randn(weight.shape, generator=generator)
            yield name, weight.detach() * (1 + 0.01 * version * self.noise[name])

    def pipeline(
        self,
        strategy: Strategy,
        *,
        prompts: int,
        num_train: int,
        max_tokens: int = 160,
        rate: Callable[[Prompt], float] = mixed,
        task: Task | None = None,
        **changes: Any,
    ) -> Pipeline:
        """A pipeline on `num_train` problems, or a task of one's own: few come back at once."""
        sizes = {"num_train": num_train, "num_heldout": 3}
        if self.name == "demo":
            task = Decided(task=task or ChainSum(**sizes), rate=rate)
        else:
            task = Programs(**sizes)
        problems = task.problems(self.codec)
        return Pipeline(
            strategy,
            engine=self.engine,
            task=task,
            train=problems.train,
            heldout=problems.heldout,
            codec=self.codec,
            prompts=prompts,
            sampling=Sampling(max_tokens=max_tokens),
            seed=0,
            **changes,
        )

    def batches(self, pipeline: Pipeline, *, num: int) -> list[RolloutBatch]:
        """Updates without a trainer: each under a policy of its own."""
        made: list[RolloutBatch] = []
        for version in range(num):
            pipeline.sync(self.weights(version), version=version)
            made.append(pipeline.next_batch())
        return made

    def job(self, source: "Source", *, folder: Path) -> TrainJob:
        """What a trainer learns from the source, from the demo model on."""
        run = source.pipeline
        return TrainJob(
            model=str(self.model),
            source=source,
            loss=run.strategy.loss,
            correction=run.strategy.correction,
            seed=0,
            folder=folder,
            sampling=run.sampling,
        )

    def logprob_gap(self, rollouts: Iterable[Rollout]) -> float:
        """Largest |sampled - scored| log-prob, each token scored by the policy that sampled it."""
        heats: dict[float, list[Rollout]] = {}
        for rollout in (r for r in rollouts if len(r)):
            heats.setdefault(rollout.notes.get("temperature", 1.0), []).append(rollout)
        return max((self._gap(own, heat=heat) for heat, own in heats.items()), default=0.0)

    def _gap(self, all_: list[Rollout], *, heat: float) -> float:
        sequences = [[*r.prompt.tokens, *r.tokens_T.tolist()] for r in all_]
        versions = {int(v) for r in all_ for v in r.versions_T[r.mask_T]}
        worst = 0.0
        for version in sorted(versions):
            self.engine.update_weights(self.weights(version), version=version)
            scores = [
                s.logprobs_T
                for s in self.engine.score(sequences, sampling=Sampling(temperature=heat))
            ]
            for rollout, score in zip(all_, scores, strict=True):
                here = rollout.mask_T & (rollout.versions_T == version)
                gap_T = np.abs(score[len(rollout.prompt.tokens) - 1 :] - rollout.logprobs_T)
                worst = float(np.maximum(worst, gap_T[here].max(initial=0.0)))  # keeps NaN
        return worst


def start(name: str = "demo") -> Floor:
    """Starts the engine on a demo model, which the first one who asks for it makes."""
    folder = models.resolve(name)
    engine = Vllm(kv_cache_gib=0.25).start(model=str(folder), seed=0)
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return Floor(name=name, model=folder, engine=engine, codec=HfCodec(folder), policy=policy)


@dataclass(kw_only=True)
class Source:
    """A pipeline as a trainer's `BatchSource`, with what passes through kept."""

    pipeline: Pipeline
    batches: list[RolloutBatch] = field(default_factory=list)
    metrics: list[Mapping[str, float]] = field(default_factory=list)

    def next_batch(self) -> RolloutBatch:
        self.batches.append(self.pipeline.next_batch())
        return self.batches[-1]

    def sync(self, weights: Any, *, version: int) -> None:
        self.pipeline.sync(weights, version=version)

    def masked(self, kept: Mapping[str, Any]) -> None:
        self.pipeline.masked(kept)

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        self.metrics.append(metrics)
        self.pipeline.updated(metrics)

    def state_dict(self) -> dict[str, Any]:
        return self.pipeline.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.pipeline.load_state_dict(state)


def fresh(batches: Sequence[RolloutBatch]) -> list[Rollout]:
    """Every rollout made, cut ones included, once."""
    made = {r.id: r for b in batches for g in b.groups for r in g.rollouts}
    return [*made.values(), *(r for b in batches for r in b.aborted if r.id not in made)]


def positions(rollouts: Iterable[Rollout]) -> set[tuple[str, int]]:
    """The sampled tokens behind rollouts, each once, however many rollouts share it."""
    return {(s.request_id, i) for r in rollouts for s in r.spans for i in range(s.start, s.stop)}
