"""Metrics of an update: TRL's own figures, and how far the policy has moved since sampling."""

from collections.abc import Mapping, MutableMapping
from math import isfinite, nan
from typing import Any, Final

import torch
from torch import Tensor

from gfcr.train.base import TrainJob
from gfcr.train.collate import Padded
from gfcr.train.trl_checks import ONLINE

_MEANS: Final = {
    "kl": "kl",
    "clip_ratio/low_mean": "clip_ratio_low",
    "clip_ratio/high_mean": "clip_ratio_high",
    "clip_ratio/region_mean": "clip_ratio",
    "cispo_clip_ratio": "clip_ratio",
}
"""TRL's log keys of means over a pass, and the names under which they are reported."""
_UNREPORTED: Final = ("entropy", "clip_ratio/low_min", "clip_ratio/high_max", "vespo/phi_seq_mean")
"""Its other log keys of a pass."""
_OWN: Final = 5
TERMS: Final = _OWN + len(_MEANS) + 1


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
    found = torch.stack([term.sum(dtype=torch.float64) for term in each])
    return torch.nn.functional.pad(found, (TERMS - _OWN, 0))


def logged_terms(logged: MutableMapping[str, list[float]], *, tokens: int) -> Tensor:
    """Returns the terms of what TRL has logged of a pass, (TERMS,); NaN where it logs nothing.

    TRL averages passes as they are, but they differ in tokens. What it has logged of a pass without
    any is taken back.
    """
    means = [logged[name][-1] if logged.get(name) else nan for name in _MEANS]
    for name in (*_MEANS, *_UNREPORTED) if not tokens else ():
        del logged.get(name, [])[-1:]
        if not logged.get(name, True):  # it would be a mean over nothing
            del logged[name]
    each = [*(mean * tokens for mean in means), tokens, *[0.0] * _OWN]
    return torch.tensor(each, dtype=torch.float64)


def figures(
    sums: Tensor, *, job: TrainJob, logs: Mapping[str, Any], taken: float
) -> dict[str, float]:
    """Returns the reported metrics of an update.

    Args:
        sums: sum of `terms` over the first step and of `logged_terms` over all, (TERMS,).
        job: says what is learned by, and at which temperature rollouts were sampled.
        logs: TRL's logged values.
        taken: the share of the update's steps that have samples.
    """
    *logged, passed, entropy, ratio, square, gap, tokens = map(float, sums)
    own = {"entropy": entropy / tokens}
    # TRL's sft and dpo know no temperature: their log-probs are of another law then.
    if job.loss.estimator in ONLINE or job.sampling.temperature == 1:
        own |= {
            "off_policy_ratio": ratio / tokens,
            "effective_share": ratio**2 / (tokens * square),
            "logprob_gap": gap / tokens,
        }
    named = zip(_MEANS.values(), logged, strict=True)
    own |= {name: total / passed for name, total in named if passed and isfinite(total)}
    # Steps without samples are in TRL's mean with a loss of 0.
    own |= {"loss": logs["loss"] / taken} if "loss" in logs else {}
    return own | {k: logs[k] for k in ("grad_norm", "learning_rate") if k in logs}
