"""Scripted rollouts for the trainer tests: no engine, every number known in advance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from gfcr.correction.base import Correction
from gfcr.train.base import TrainJob
from gfcr.train.trl import Trl
from gfcr.types import (
    Cost,
    FinishReason,
    Loss,
    Prompt,
    Rollout,
    RolloutBatch,
    Sample,
    Sampling,
    Span,
)
from tests.integration.tiny_model import VOCAB, tiny_qwen3

torch.set_num_threads(1)  # sums in a fixed order, and these models gain nothing from more

LEARNING_RATE = 0.3
"""Large, so that the change of a weight is well above the rounding of the weight itself."""


def tiny_policy(folder: Path) -> str:
    """A random Qwen3 with a tokenizer, as trainers want it."""
    tiny_qwen3(folder)
    words = {"<pad>": 0, "<eos>": 1, **{chr(95 + i): i for i in range(2, VOCAB)}}
    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<pad>")),
        pad_token="<pad>",
        eos_token="<eos>",
    ).save_pretrained(folder)
    return str(folder)


def rollout(
    rng: np.random.Generator, *, prompt: int, member: int, mask: Sequence[bool] | None = None
) -> Rollout:
    length = len(mask) if mask is not None else int(rng.integers(3, 12))
    prompt_rng = np.random.default_rng(prompt)
    tokens = prompt_rng.integers(2, VOCAB, 2 + prompt % 4)
    return Rollout(
        id=f"{prompt}.{member}",
        group_id=str(prompt),
        prompt=Prompt(id=str(prompt), tokens=tuple(map(int, tokens)), text=str(prompt), answer=""),
        tokens_T=rng.integers(2, VOCAB, length).astype(np.int32),
        logprobs_T=-rng.uniform(0.5, 4.0, length).astype(np.float32),
        versions_T=np.zeros(length, np.int32),
        mask_T=np.ones(length, np.bool_) if mask is None else np.array(mask),
        spans=(Span(request_id="r", start=0, stop=length),),
        text="",
        finish=FinishReason.STOP,
        step=0,
        reward=float(rng.integers(0, 4)),
    )


def groups(seed: int, *, count: int = 4, size: int = 4) -> list[list[Rollout]]:
    """`count` groups of `size` rollouts, the same for the same seed."""
    rng = np.random.default_rng(seed)
    return [[rollout(rng, prompt=p, member=m) for m in range(size)] for p in range(count)]


def grpo_advantages(rewards: np.ndarray) -> np.ndarray:
    return (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)


def dr_grpo_advantages(rewards: np.ndarray) -> np.ndarray:
    return rewards - rewards.mean()


def rloo_advantages(rewards: np.ndarray) -> np.ndarray:
    return rewards - (rewards.sum() - rewards) / (len(rewards) - 1)


Advantages = Callable[[np.ndarray], np.ndarray]


def samples_of(
    made: Sequence[Sequence[Rollout]], *, formula: Advantages = grpo_advantages
) -> list[Sample]:
    samples: list[Sample] = []
    for group in made:
        values = formula(np.array([r.reward for r in group], np.float64))
        samples += [
            Sample(rollout=r, advantage_T=(a * r.mask_T).astype(np.float32))
            for r, a in zip(group, values, strict=True)
        ]
    return samples


def batch_of(samples: Sequence[Sample], *, step: int) -> RolloutBatch:
    return RolloutBatch(
        step=step,
        version=step,
        samples=tuple(samples),
        groups=(),
        aborted=(),
        cost=Cost(),
        metrics={},
    )


@dataclass(kw_only=True)
class Scripted:
    """A BatchSource that makes update n's samples with `make(n)` and keeps a diary."""

    make: Callable[[int], Sequence[Sample]]
    stop_after: int | None = None
    served: int = 0
    diary: list[str] = field(default_factory=list)
    metrics: list[Mapping[str, float]] = field(default_factory=list)
    weights: list[dict[str, torch.Tensor]] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    """Tokens that a correction left in the last update's loss, by rollout."""

    def next_batch(self) -> RolloutBatch | None:
        if self.stop_after is not None and self.served >= self.stop_after:
            self.diary.append("none")
            return None
        self.diary.append(f"batch {self.served}")
        self.served += 1
        return batch_of(self.make(self.served - 1), step=self.served - 1)

    def sync(self, weights: Any, *, version: int) -> None:
        self.diary.append(f"sync {version}")
        self.weights.append({name: tensor.detach().clone() for name, tensor in weights})

    def masked(self, kept: Mapping[str, Any]) -> None:
        self.kept = dict(kept)

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        self.diary.append(f"updated {step}")
        self.metrics.append(dict(metrics))

    def state_dict(self) -> dict[str, Any]:
        self.diary.append("state")
        return {"served": self.served}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.diary.append("restored")
        self.served = state["served"]


def plain_sgd(**changes: Any) -> Trl:
    """A trainer whose update is learning rate times gradient, nothing else."""
    settings: dict[str, Any] = {
        "max_steps": 2,
        "optimizer": "sgd",
        "learning_rate": LEARNING_RATE,
        "max_grad_norm": 0.0,
        "micro_batches": 4,
    }
    return Trl(**(settings | changes))


def run(
    trainer: Trl,
    source: Scripted,
    *,
    model: str,
    folder: Path,
    loss: Loss | None = None,
    correction: Correction | None = None,
    sampling: Sampling | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Any:
    job = TrainJob(
        model=model,
        source=source,
        loss=loss or Loss(),
        correction=correction,
        seed=0,
        folder=folder,
        sampling=sampling or Sampling(),
        should_stop=should_stop,
    )
    return trainer.train(job)


def change(source: Scripted) -> torch.Tensor:
    """What training changed, all parameters in one vector."""
    first, last = source.weights[0], source.weights[-1]
    return torch.cat([(last[n] - first[n]).flatten() for n in sorted(first)])


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()
