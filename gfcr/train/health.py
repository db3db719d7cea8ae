"""Stops the run before a number that is not finite reaches optimizer, checkpoint or engine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gfcr.errors import TrainingError
from gfcr.types import Sample

_ADVICE = (
    "Nothing of this update was saved: the last checkpoint is sound, and the same command goes on "
    "from it. Lower trainer.learning_rate, raise the precision, or look for extreme advantages."
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass of an update."""

    loss: Tensor
    samples: Sequence[Sample]
    """The samples that the loss is of."""


def check_update(passes: Sequence[Pass], *, model: nn.Module | None, update: int) -> None:
    """Checks losses and gradients that the optimizer is about to apply.

    Args:
        passes: the forward passes.
        model: holds the gradients; None leaves their check to the trainer.
        update: number of the update, for messages.

    Raises:
        TrainingError: a loss or a gradient is not finite; names the rollouts and their numbers.
    """
    held = [] if model is None else [*model.named_parameters()]
    grads = {name: p.grad for name, p in held if p.grad is not None}
    sound = _are_finite(grads)  # first: processes that hold a share each take the norm together
    for number, each in enumerate(passes, start=1):
        if not math.isfinite(loss := float(each.loss)):
            raise TrainingError(
                f"update {update}: the loss of micro-batch {number} of {len(passes)} is {loss} "
                f"({_contents(each.samples)}). {_ADVICE}"
            )
    if not sound:
        everything = [s for each in passes for s in each.samples]
        raise _unsound(grads, what=f"update {update}: a gradient ({_contents(everything)})")


def check_weights(weights: Mapping[str, Tensor], *, update: int) -> None:
    """Checks the policy that an engine or a checkpoint is about to get.

    Raises:
        TrainingError: a weight is not finite; names the first such tensor.
    """
    if not _are_finite(weights):
        raise _unsound(weights, what=f"update {update}: a weight")


def check_logged(logs: dict[str, Any], *, update: int) -> None:
    """Checks the trainer's logged figures: a norm that overflows clips gradients to nothing.

    Raises:
        TrainingError: loss or gradient norm is not finite.
    """
    for key in ("loss", "grad_norm"):
        if not math.isfinite(value := float(logs.get(key, 0.0))):
            raise TrainingError(f"update {update}: {key} is {value}. {_ADVICE}")


@torch.no_grad()
def _are_finite(tensors: Mapping[str, Tensor]) -> bool:
    # One norm over all, so that a GPU is waited for once.
    if not tensors:
        return True
    norm = torch.nn.utils.get_total_norm(list(tensors.values()))
    return bool((norm.full_tensor() if isinstance(norm, DTensor) else norm).isfinite())


def _unsound(tensors: Mapping[str, Tensor], *, what: str) -> TrainingError:
    shares = {n: t.to_local() if isinstance(t, DTensor) else t for n, t in tensors.items()}
    bad = [name for name, t in shares.items() if not bool(t.isfinite().all())]
    first = f"{len(bad)} of {len(tensors)} tensors, {bad[0]!r} for one" if bad else "their norm"
    return TrainingError(f"{what} is not finite ({first}). {_ADVICE}")


def _contents(samples: Sequence[Sample]) -> str:
    if not samples:
        return "no rollouts"
    names = [s.rollout.id for s in samples]
    advantages = np.concatenate([s.advantage_T for s in samples])
    sampled = np.concatenate([s.rollout.logprobs_T for s in samples])
    return (
        f"rollouts {', '.join(names[:4])}{' ...' if names[4:] else ''}; advantages "
        f"{advantages.min():g} to {advantages.max():g}, log-probs sampled with {sampled.min():g} "
        f"to {sampled.max():g}"
    )
