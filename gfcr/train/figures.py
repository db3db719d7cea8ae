"""Metrics of an update: TRL's own figures, and how far the policy has moved since sampling."""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from gfcr.train.collate import Padded

_REPORTED: Final = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "kl": "kl",
    "clip_ratio/low_mean": "clip_ratio_low",
    "clip_ratio/high_mean": "clip_ratio_high",
    "clip_ratio/region_mean": "clip_ratio",
    "cispo_clip_ratio": "clip_ratio",
}
"""TRL's log keys, and the names under which they are reported."""
TERMS: Final = 5


def terms(padded: Padded, output: Any) -> Tensor:
    """Sums the terms of `figures` over a micro-batch's loss tokens, (TERMS,).

    Args:
        padded: the micro-batch.
        output: the model's output with log-probs and entropies (B, N), the last columns of which
            are the completions'.
    """
    width, mask = padded.loss_mask_BT.size(1), padded.loss_mask_BT.float()
    gap = (output.log_probs[:, -width:] - padded.sampled_logps_BT) * mask
    # One token far off would make an infinity of float32, so that this is float64.
    entropy, ratio = output.entropy[:, -width:] * mask, gap.double().exp() * mask
    each = (entropy, ratio, ratio.square(), gap.abs(), mask)
    return torch.stack([term.sum(dtype=torch.float64) for term in each])


def figures(sums: Tensor, *, logs: Mapping[str, Any]) -> dict[str, float]:
    """Returns the reported metrics of an update.

    Args:
        sums: sum of `terms` over the update, (TERMS,).
        logs: TRL's logged values.
    """
    entropy, ratio, square, gap, tokens = (float(x) for x in sums)
    own = {
        "entropy": entropy / tokens,
        "off_policy_ratio": ratio / tokens,
        "effective_share": ratio**2 / (tokens * square),
        "logprob_gap": gap / tokens,
    }
    return own | {ours: logs[k] for k, ours in _REPORTED.items() if k in logs}
