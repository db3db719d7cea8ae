"""The micro-batches of a process's share of an update, as inputs of TRL's losses.

`B` rows, `T` completion tokens.

Keys and shapes are those of `_compute_loss` in TRL 1.15 and 1.16, where the exactness tests run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import log
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from gfcr.errors import ConfigError
from gfcr.train.base import Steps
from gfcr.train.collate import Padded, collate
from gfcr.train.shares import Part, Share
from gfcr.types import Loss, Sample

InputBuilder: TypeAlias = Callable[..., dict[str, Any]]
"""Builds the inputs of one forward pass, for one trainer class's loss.

Args:
    trainer: The TRL trainer.
    padded: The micro-batch.
    loss: The update rule.
    tokens: Loss tokens of the whole update.
    moves: Whether the policy changes within the update: its log-probs before the first step are
        taken now.
"""


def grpo_inputs(
    trainer: Any, padded: Padded, *, loss: Loss, tokens: int, moves: bool
) -> dict[str, Any]:
    """Inputs of GRPOTrainer: advantages per token, environment tokens masked."""
    clipped = loss.off_policy == "behaviour" or padded.corrected
    # Without old log-probs TRL takes those of the pass itself: ratios of 1, and one pass less.
    old_BT = padded.old_logps_BT if clipped else None
    if moves and not clipped:
        old_BT = logps(trainer, trainer.model, padded)
    inputs = _tokens_of(padded) | {
        "tool_mask": padded.loss_mask_BT,
        "advantages": padded.advantages_BT,
        # It is of the whole update: TRL scales it to one optimizer step and one process.
        "num_items_in_batch": torch.tensor(tokens, device=padded.advantages_BT.device),
        "old_per_token_logps": old_BT,
        "sampling_per_token_logps": padded.sampled_logps_BT,
    }
    if trainer.beta:
        inputs["ref_per_token_logps"] = _reference_logps(trainer, padded)
    return inputs


def rloo_inputs(
    trainer: Any, padded: Padded, *, loss: Loss, tokens: int, moves: bool
) -> dict[str, Any]:
    """Inputs of RLOOTrainer: one advantage and one (summed) log-prob per row.

    Raises:
        ConfigError: a rollout has environment tokens or advantages that differ between tokens,
            neither of which a sequence-level ratio has a place for.
    """
    advantages_B = _row_advantages(padded)
    if loss.off_policy == "behaviour" or padded.corrected:
        old_BT = padded.old_logps_BT
    else:
        old_BT = logps(trainer, trainer.model, padded) * padded.completion_mask_BT
    return _tokens_of(padded) | {"old_logps": old_BT.sum(1), "advantages": advantages_B}


def sft_inputs(
    trainer: Any, padded: Padded, *, loss: Loss, tokens: int, moves: bool
) -> dict[str, Any]:
    """Inputs of SFTTrainer: every token of the loss is a label.

    Raises:
        ConfigError: an advantage is not 1: a likelihood has no place for it.
    """
    own = padded.advantages_BT[padded.loss_mask_BT.bool()]
    if not own.eq(1).all():
        raise ConfigError(
            'loss.estimator="sft" learns all that is kept alike: reject what should not be '
            "learned, and give the rest the advantage 1."
        )
    ids, mask, learned = _sequences(padded)
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(~learned, -100)}


def dpo_inputs(
    trainer: Any, padded: Padded, *, loss: Loss, tokens: int, moves: bool
) -> dict[str, Any]:
    """Inputs of DPOTrainer: the rows chosen, then those rejected in the same order."""
    ids, mask, learned = _sequences(padded)
    return {"input_ids": ids, "attention_mask": mask, "completion_mask": learned.long()}


BUILDERS: Final[Mapping[str, InputBuilder]] = {
    "grpo": grpo_inputs,
    "rloo": rloo_inputs,
    "sft": sft_inputs,
    "dpo": dpo_inputs,
}


class Micro(NamedTuple):
    """One forward and backward pass."""

    padded: Padded
    inputs: dict[str, Any]
    samples: list[Sample]
    """The samples of the rows, without those that only fill rows."""
    scale: float
    """Factor of the loss, which undoes TRL's mean over unequal micro-batches."""
    filling: float
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
        inputs = build(trainer, padded, loss=loss, tokens=share.tokens, moves=moves)
        filling = weight * (len(rows) - len(known)) / 2 * log(2) if paired and known else 0.0
        made.append(Micro(padded, inputs, known, scale, filling))
    return made


def _sequences(padded: Padded) -> tuple[Tensor, Tensor, Tensor]:
    """Joins prompts and completions: token ids, attention mask, and loss mask as booleans."""
    ids = torch.cat([padded.prompt_ids_BP, padded.completion_ids_BT], 1)
    mask = torch.cat([padded.prompt_mask_BP, padded.completion_mask_BT], 1)
    prompt_BP = torch.zeros_like(padded.prompt_ids_BP)
    return ids, mask, torch.cat([prompt_BP, padded.loss_mask_BT.long()], 1).bool()


def _tokens_of(padded: Padded) -> dict[str, Any]:
    return {
        "prompt_ids": padded.prompt_ids_BP,
        "prompt_mask": padded.prompt_mask_BP,
        "completion_ids": padded.completion_ids_BT,
        "completion_mask": padded.completion_mask_BT,
    }


def logps(trainer: Any, model: Any, padded: Padded) -> Tensor:
    """Returns log-probs `(B, T)` of completions under a model, at the trainer's temperature."""
    return law(trainer, model, padded)[0]


@torch.no_grad()
def law(
    trainer: Any, model: Any, padded: Padded, *, entropies: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Returns log-probs as `logps` does, and the entropy at each token if that is asked for."""
    ids, mask, _ = _sequences(padded)
    width = padded.completion_ids_BT.size(1)
    return trainer._get_per_token_logps_and_entropies(
        model, ids, mask, width, compute_entropy=entropies
    )[:2]


def _reference_logps(trainer: Any, padded: Padded) -> Tensor:
    if trainer.ref_model is not None:
        return logps(trainer, trainer.ref_model, padded)
    # With adapters TRL holds no second model: disabling them gives the reference.
    with trainer.accelerator.unwrap_model(trainer.model).disable_adapter():
        return logps(trainer, trainer.model, padded)


def _row_advantages(padded: Padded) -> Tensor:
    learned_B = padded.loss_mask_BT.any(1)  # other rows are filling
    if not padded.loss_mask_BT[learned_B].equal(padded.completion_mask_BT[learned_B]):
        raise ConfigError(
            'loss.estimator="rloo" cannot leave environment tokens out of the loss: TRL\'s '
            'RLOOTrainer has no loss mask. Use estimator="grpo" for multi-turn rollouts.'
        )
    mask_BT = padded.completion_mask_BT.bool()
    first_B1 = padded.advantages_BT[:, :1]
    if not torch.where(mask_BT, padded.advantages_BT, first_B1).eq(first_B1).all():
        raise ConfigError(
            'loss.estimator="rloo" takes one advantage a rollout, but a map or a correction gave '
            'one per token. Use estimator="grpo", or one number a rollout (a map with one '
            "advantage, a `truncated` correction with level=sequence or geometric)."
        )
    return first_B1[:, 0]
