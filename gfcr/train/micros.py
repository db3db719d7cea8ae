"""The micro-batches of a process's share of an update, with the loss weight of each row."""

from dataclasses import dataclass, replace
from math import log
from typing import Any, NamedTuple

from gfcr.train.base import Steps
from gfcr.train.collate import Padded, collate
from gfcr.train.loss_inputs import BUILDERS
from gfcr.train.shares import Part, Share
from gfcr.types import Loss, Sample


class Micro(NamedTuple):
    """One forward and backward pass."""

    padded: Padded
    inputs: dict[str, Any]
    samples: list[Sample]
    """The samples of the rows, without those that only fill rows."""
    scale: float = 1.0
    """Factor of the loss, for trainers whose inputs have no place for it."""
    filling: float = 0.0
    """Subtracted from the loss: log 2, the DPO loss of equal answers, for each filling pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The passes of one optimizer step."""

    passes: list[Micro]
    """Forward and backward passes of this process."""
    tokens: int
    """Loss tokens of all processes."""
    empty: bool
    """Whether no process has samples."""


def steps_of(trainer: Any, share: Share, *, loss: Loss, steps: Steps, size: int) -> list[Step]:
    """Makes the passes of each optimizer step of an update.

    TRL does the same: with `iterations` and `mini_batches` a batch takes several steps, all with
    the log-probs of the policy before the first.

    Args:
        trainer: a TRL trainer, with the policy before the update.
        share: this process's share of the update.
        loss: the update rule.
        steps: what the update is made of.
        size: number of processes.
    """
    made: list[Step] = []
    for part in share.parts:
        passes = micros(trainer, part, share=share, loss=loss, steps=steps, size=size)
        made.append(Step(passes=passes, tokens=part.tokens, empty=not part.units))
    # Steps without samples go first, since TRL logs the gradient's norm of the last one.
    return sorted(made, key=lambda step: not step.empty) * steps.iterations


def micros(
    trainer: Any, part: Part, *, share: Share, loss: Loss, steps: Steps, size: int
) -> list[Micro]:
    """Makes the micro-batches of a part; see `steps_of`."""
    paired, made = loss.estimator == "dpo", list[Micro]()
    averages_rows = paired or loss.estimator == "rloo" or loss.aggregation != "dapo"
    # TRL averages the row means of micro-batches, and accelerate what processes found: undo it, so
    # that each row weighs the same.
    weight = steps.micro_batches * size / max(part.units, 1)
    build = BUILDERS[loss.estimator]
    for run in part.runs:
        rows = [s for column in zip(*run, strict=True) for s in column]
        known = [s for s in rows if s.rollout.id]
        padded = collate(rows, device=trainer.accelerator.device)
        padded = replace(padded, corrected=share.corrected)
        scale = weight * (len(run) if known else 0) if averages_rows else 1.0
        moves = steps.number > 1
        inputs = build(trainer, padded, loss=loss, scale=scale, tokens=share.tokens, moves=moves)
        filling = weight * (len(rows) - len(known)) / 2 * log(2) if known else 0.0
        made.append(Micro(padded, inputs, known, *((scale, filling) if paired else ())))
    return made
