"""Fills TRL's completion metrics and table with a strategy's rollouts."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from gfcr.train.rollout_func import TrlPrompt
from gfcr.train.trl import utils
from gfcr.types import Rollout, RolloutBatch, Sample
from gfcr.values.notes import REWARDS

_NAN: Final = float("nan")


class Extras(dict[tuple[str, tuple[int, ...]], dict[str, Any]]):
    """Columns that reward functions gave of completions, by id of the prompt and tokens."""


def log_batch(
    trainer: Any,
    *,
    batch: RolloutBatch,
    prompts: Mapping[str, TrlPrompt],
    extras: Extras,
) -> None:
    """Logs an update as TRL's trainer does after it has generated and scored.

    Metrics are of all rollouts made for the update, rejected ones included; the table of
    `log_completions` holds the samples that are trained on.

    Args:
        trainer: a TRL trainer, whose `log` reads what is left in it.
        batch: the batch of the update.
        prompts: the dataset's prompts, by id.
        extras: extra columns of the batch's rollouts; cleared afterwards.
    """
    groups = [(g, [r for r in g.rollouts if r.origin == "fresh"]) for g in batch.groups]
    made = [r for _, rollouts in groups for r in rollouts]
    if whole := [r for r in made if len(r)]:
        _lengths(trainer, rollouts=whole, prompts=prompts)
    if made:
        _rewards(trainer, rollouts=made)
        dead = [flag for _, rollouts in groups for flag in _dead(rollouts)]
        _log(trainer, {"frac_reward_zero_std": float(np.mean(dead))})
    for name, values in trainer._pending_metrics.items():
        _log(trainer, {name: sum(values) / len(values)})
    trainer._pending_metrics.clear()
    _table(trainer, batch=batch, prompts=prompts, extras=extras)
    extras.clear()


def score_names(trainer: Any) -> list[str]:
    """Returns the reward functions' names, numbered where they repeat, as lambdas' do."""
    seen = Counter[str]()
    found: list[str] = []
    for name in trainer.reward_func_names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return found


def is_async(function: Any) -> bool:
    """Returns whether TRL awaits what a reward function returns."""
    return bool(utils().is_async_callable(function))


def conversation(prompt: TrlPrompt, *, text: str) -> str | list[dict[str, str]]:
    """Returns a completion as TRL shows it: a message if the prompt is messages."""
    return text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]


def _log(trainer: Any, metrics: Mapping[str, float]) -> None:
    for name, value in metrics.items():
        trainer._metrics["train"][name].append(value)


def _lengths(
    trainer: Any, *, rollouts: Sequence[Rollout], prompts: Mapping[str, TrlPrompt]
) -> None:
    """Logs `completions/*` and `num_tokens` by TRL's own code, which is handed the rollouts."""
    made = {
        "prompt_ids": [list(r.prompt.tokens) for r in rollouts],
        "completion_ids": [r.tokens_T.tolist() for r in rollouts],
        "logprobs": None,
        "env_mask": [r.mask_T.astype(int).tolist() for r in rollouts],
    }

    def replayed(asked: Sequence[TrlPrompt], trainer: Any) -> Mapping[str, Any]:
        return made

    trainer.rollout_func = replayed
    try:
        trainer._generate([prompts[r.prompt.id] for r in rollouts])
    finally:
        trainer.rollout_func = None


def _rewards(trainer: Any, *, rollouts: Sequence[Rollout]) -> None:
    for name, held in zip(trainer.reward_func_names, score_names(trainer), strict=True):
        scores = _tensor([r.notes.get(f"{REWARDS}{held}") for r in rollouts])
        mean, std = torch.nanmean(scores).item(), _spread(scores).item()
        _log(trainer, {f"rewards/{name}/mean": mean, f"rewards/{name}/std": std})
    rewards = _tensor([r.reward for r in rollouts])
    mean, std = torch.nanmean(rewards).item(), _spread(rewards).item()
    _log(trainer, {"reward": mean, "reward_std": std})


def _dead(rollouts: Sequence[Rollout]) -> list[bool]:
    """Returns for each rollout whether its group's rewards are all equal."""
    rewards = _tensor([r.reward for r in rollouts])
    spread = _spread(rewards) if len(rollouts) > 1 else torch.zeros(())
    return [bool(torch.isclose(spread, torch.zeros_like(spread)))] * len(rollouts)


def _spread(values: Tensor) -> Tensor:
    """Returns TRL's standard deviation of the values that are not NaN."""
    return utils().nanstd(values)


def _tensor(values: Sequence[float | None]) -> Tensor:
    """Converts to single precision, as TRL holds rewards, with NaN for None."""
    return torch.tensor([_NAN if v is None else v for v in values], dtype=torch.float32)


def _advantage(sample: Sample) -> float:
    """Returns the rollout's advantage: the mean over its sampled tokens."""
    sampled = int(sample.rollout.mask_T.sum())
    return float(sample.advantage_T.sum(dtype=np.float64)) / max(sampled, 1)


def _table(
    trainer: Any,
    *,
    batch: RolloutBatch,
    prompts: Mapping[str, TrlPrompt],
    extras: Extras,
) -> None:
    """Replaces the rows that TRL's `log` prints, writes and sends by those of this update."""
    samples, logs = batch.samples, trainer._logs
    rollouts = [s.rollout for s in samples]
    told = [extras.get((r.prompt.id, tuple(r.tokens_T.tolist())), {}) for r in rollouts]
    size = max(trainer.args.generation_batch_size, len(samples))
    asked = [prompts[r.prompt.id] for r in rollouts]

    def column(values: Sequence[Any]) -> deque[Any]:
        return deque(values, maxlen=size)

    logs["prompt"] = column(asked)
    logs["completion"] = column(
        [conversation(p, text=r.text) for p, r in zip(asked, rollouts, strict=True)]
    )
    for name in score_names(trainer):
        logs["rewards"][name] = column([r.notes.get(f"{REWARDS}{name}", _NAN) for r in rollouts])
    logs["advantages"] = column([_advantage(s) for s in samples])
    logs["extra"].clear()
    for name in sorted({name for each in told for name in each}):
        logs["extra"][name] = column([each.get(name) for each in told])
