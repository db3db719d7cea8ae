"""From samples to padded tensors, in micro-batches of about equal size.

`B` rows, `P` prompt tokens, `T` completion tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from gfcr.types import Floats, Sample

Unit = TypeVar("Unit", bound=tuple[Sample, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Padded:
    """One micro-batch: prompts padded on the left, completions on the right."""

    prompt_ids_BP: Tensor
    prompt_mask_BP: Tensor
    completion_ids_BT: Tensor
    completion_mask_BT: Tensor
    """1 on every completion token, environment text included: what attention sees."""
    loss_mask_BT: Tensor
    """1 on the tokens the policy sampled."""
    sampled_logps_BT: Tensor
    old_logps_BT: Tensor
    """What the loss clips against: those sampled with, unless a correction has taken others."""
    advantages_BT: Tensor
    corrected: bool
    """Whether a correction has."""


def trainable(samples: Iterable[Sample]) -> list[Sample]:
    """The samples with at least one token of the policy's own; the others teach nothing."""
    return [s for s in samples if s.rollout.mask_T.any()]


def loss_tokens(samples: Iterable[Sample]) -> int:
    """Number of tokens the loss is taken over."""
    return sum(int(s.rollout.mask_T.sum()) for s in samples)


def micro_batches(samples: Iterable[Sample], *, count: int) -> list[list[Sample]]:
    """Cuts samples, sorted by length, into `count` runs of about the same number of tokens.

    Every sample is in exactly one run. A run is empty only if samples are fewer than `count`.
    """
    return [[s for (s,) in run] for run in units([(s,) for s in samples], count=count)]


def units(given: Iterable[Unit], *, count: int) -> list[list[Unit]]:
    """Like `micro_batches`, for samples that stay together."""
    ordered = sorted(given, key=_size)
    tokens_left = sum(map(_size, ordered))
    runs: list[list[Unit]] = []
    start = 0
    for runs_left in range(count, 0, -1):
        goal, size, stop = tokens_left / runs_left, 0, start
        last = len(ordered) - (runs_left - 1)
        while stop < last and (stop == start or size + _size(ordered[stop]) / 2 <= goal):
            size += _size(ordered[stop])
            stop += 1
        runs.append(ordered[start:stop])
        start, tokens_left = stop, tokens_left - size
    return runs


def collate(samples: Sequence[Sample], *, device: torch.device, rows: int = 1) -> Padded:
    """Pads samples to one rectangle; no samples give `rows` that weigh nothing."""
    if not samples:
        one, zero = torch.ones(rows, 1, dtype=torch.long), torch.zeros(rows, 1)
        columns = (one, one, one, one, zero.long(), zero, zero, zero)
    else:
        rollouts = [s.rollout for s in samples]
        prompts, completions = [r.prompt.tokens for r in rollouts], [r.tokens_T for r in rollouts]
        columns = (
            _pad(prompts, "int64", side="left"),
            _pad([np.ones(len(p)) for p in prompts], "int64", side="left"),
            _pad(completions, "int64"),
            _pad([np.ones(len(c)) for c in completions], "int64"),
            _pad([r.mask_T for r in rollouts], "int64"),
            _pad([r.logprobs_T for r in rollouts], "float32"),
            _pad([_old(s) for s in samples], "float32"),
            _pad([s.advantage_T for s in samples], "float32"),
        )
    corrected = any(s.old_logprobs_T is not None for s in samples)
    names = [name for name in Padded.__dataclass_fields__ if name != "corrected"]
    tensors = {n: c.to(device) for n, c in zip(names, columns, strict=True)}
    return Padded(**tensors, corrected=corrected)


def _pad(rows: Sequence[Any], dtype: str, *, side: Literal["left", "right"] = "right") -> Tensor:
    width = max(len(row) for row in rows)
    table = np.zeros((len(rows), width), dtype)
    for line, row in zip(table, rows, strict=True):
        line[width - len(row) if side == "left" else 0 :][: len(row)] = row
    return torch.tensor(table)


def _old(sample: Sample) -> Floats:
    own = sample.old_logprobs_T
    return sample.rollout.logprobs_T if own is None else own


def _size(unit: tuple[Sample, ...]) -> int:
    return sum(map(_length, unit))


def _length(sample: Sample) -> int:
    return len(sample.rollout.prompt.tokens) + len(sample.rollout)
