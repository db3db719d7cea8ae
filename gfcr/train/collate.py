"""Collates samples into padded tensors, in micro-batches of about equal size.

`B` rows, `P` prompt tokens, `T` completion tokens.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gfcr.types import FinishReason, Floats, Prompt, Rollout, Sample

Item = TypeVar("Item")
Unit = TypeVar("Unit", bound=tuple[Sample, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Padded:
    """One micro-batch: prompts padded on the left, completions on the right."""

    prompt_ids_BP: Tensor
    prompt_mask_BP: Tensor
    completion_ids_BT: Tensor
    completion_mask_BT: Tensor
    """1 on every completion token, environment tokens included: the attention mask."""
    loss_mask_BT: Tensor
    """1 on tokens that the policy sampled: the loss mask."""
    sampled_logps_BT: Tensor
    old_logps_BT: Tensor
    """Log-probs that the loss clips against: those of sampling, or a correction's in their
    place."""
    advantages_BT: Tensor
    corrected: bool
    """Whether a correction replaced the old log-probs."""


NOTHING: Final = Sample(
    rollout=Rollout(
        id="",
        group_id="",
        prompt=Prompt(id="", tokens=(1,), text="", answer=""),
        tokens_T=np.ones(1, np.int32),
        logprobs_T=np.zeros(1, np.float32),
        versions_T=np.zeros(1, np.int32),
        mask_T=np.zeros(1, np.bool_),
        spans=(),
        text="",
        finish=FinishReason.STOP,
        step=0,
    ),
    advantage_T=np.zeros(1, np.float32),
)
"""Sample that fills a row of a rectangle: no loss weight, but valid input for a model."""


def trainable(samples: Iterable[Sample]) -> list[Sample]:
    """Returns the samples with at least one token that the policy sampled."""
    return [s for s in samples if s.rollout.mask_T.any()]


def loss_tokens(samples: Iterable[Sample]) -> int:
    """Returns the number of tokens that the loss is taken over."""
    return sum(int(s.rollout.mask_T.sum()) for s in samples)


def units(given: Iterable[Unit], *, count: int) -> list[list[Unit]]:
    """Cuts units, sorted by length, into `count` runs of about the same number of tokens.

    A unit is a sample, or samples that stay together. Every one is in exactly one run, and a run is
    empty only if units are fewer than `count`.
    """
    # Rows of like length share a pass, as all of it is padded to its longest.
    ordered = sorted(given, key=_size)
    tokens_left = sum(map(_size, ordered))
    runs: list[list[Unit]] = []
    start = 0
    for runs_left in range(count, 0, -1):
        # A run takes samples up to its share of the tokens left; a sample stays for each later run.
        goal, size, stop = tokens_left / runs_left, 0, start
        last = len(ordered) - (runs_left - 1)
        # With half of the next one's size a run ends as near to its goal as samples allow.
        while stop < last and (stop == start or size + _size(ordered[stop]) / 2 <= goal):
            size += _size(ordered[stop])
            stop += 1
        runs.append(ordered[start:stop])
        start, tokens_left = stop, tokens_left - size
    return runs


def bucketed(
    items: Iterable[Item], *, length: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Cuts items, sorted by length, into batches of at most `most` padded tokens, or one item."""
    batch: list[Item] = []
    for item in sorted(items, key=length):
        # Items come by length: the new one is the longest, and all would be padded to it.
        if batch and length(item) * (len(batch) + 1) > most:
            yield batch
            batch = []
        batch.append(item)
    yield batch


def collate(samples: Sequence[Sample], *, device: torch.device) -> Padded:
    """Pads samples to one rectangle; without samples it has one row of no weight."""
    samples = samples or [NOTHING]
    rollouts = [s.rollout for s in samples]
    prompts, completions = [r.prompt.tokens for r in rollouts], [r.tokens_T for r in rollouts]
    columns = (
        _pad(prompts, torch.int64, side="left"),
        _pad([np.ones(len(p)) for p in prompts], torch.int64, side="left"),
        _pad(completions, torch.int64),
        _pad([np.ones(len(c)) for c in completions], torch.int64),
        _pad([r.mask_T for r in rollouts], torch.int64),
        _pad([r.logprobs_T for r in rollouts], torch.float32),
        _pad([_old(s) for s in samples], torch.float32),
        _pad([s.advantage_T for s in samples], torch.float32),
    )
    corrected = any(s.old_logprobs_T is not None for s in samples)
    names = [name for name in Padded.__dataclass_fields__ if name != "corrected"]
    tensors = {n: c.to(device) for n, c in zip(names, columns, strict=True)}
    return Padded(**tensors, corrected=corrected)


def _pad(rows: Sequence[Any], dtype: torch.dtype, *, side: str = "right") -> Tensor:
    tensors = [torch.tensor(row, dtype=dtype) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_side=side)


def _old(sample: Sample) -> Floats:
    own = sample.old_logprobs_T
    return sample.rollout.logprobs_T if own is None else own


def _size(unit: tuple[Sample, ...]) -> int:
    return sum(len(s.rollout.prompt.tokens) + len(s.rollout) for s in unit)
