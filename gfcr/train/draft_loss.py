"""The loss of a draft model: its divergence from the verifier, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gfcr.speculation.lessons import Example

_LEAST = 1e-6
"""Floor of probabilities in logarithms and divisions."""


@final
@dataclass(frozen=True, kw_only=True)
class Minibatch:
    """Examples padded to one length; `BC` counts completion tokens of each, padded on the right."""

    inputs_BT: Tensor
    positions_BC: Tensor
    """Position of each completion token's logits, one before the token itself."""
    tokens_BC: Tensor
    weights_BC: Tensor
    """Weight of the example; 0 on padding."""
    temperature_B: Tensor
    ids_BCM: Tensor | None
    """The verifier's likeliest tokens; None if only samples were recorded."""
    probs_BCM: Tensor | None

    @property
    def num_tokens(self) -> int:
        """Number of completion tokens, padding excluded."""
        return int((self.weights_BC > 0).sum())


def collate(examples: Sequence[Example], *, device: torch.device) -> Minibatch:
    """Pads examples. Right padding needs no mask, as causal attention never looks at it."""
    made = [len(e.tokens_T) - e.prompt_length for e in examples]
    laws = [e.law for e in examples if e.law is not None]
    whole = len(laws) == len(examples)

    def padded(rows: Sequence[np.ndarray]) -> Tensor:
        tensors = [torch.as_tensor(np.ascontiguousarray(r)) for r in rows]
        return pad_sequence(tensors, batch_first=True).to(device)

    return Minibatch(
        inputs_BT=padded([e.tokens_T.astype(np.int64) for e in examples]),
        positions_BC=padded(
            [np.arange(e.prompt_length - 1, len(e.tokens_T) - 1) for e in examples]
        ),
        tokens_BC=padded([e.tokens_T[e.prompt_length :].astype(np.int64) for e in examples]),
        weights_BC=padded(
            [np.full(c, e.weight, np.float32) for e, c in zip(examples, made, strict=True)]
        ),
        temperature_B=torch.tensor([e.temperature for e in examples], device=device),
        ids_BCM=padded([law.ids_TM.astype(np.int64) for law in laws]) if whole else None,
        probs_BCM=padded([law.probs_TM for law in laws]) if whole else None,
    )


def divergence(model: torch.nn.Module, batch: Minibatch, *, rejected: float) -> Tensor:
    """Weighted mean over tokens of the forward divergence from the verifier, in nats.

    With p the verifier's distribution as recorded and q the draft's, at the temperature sampled at:
    KL(p || q), where all tokens that p's record lacks count as one. Without records it is the
    cross-entropy -ln q(token): the same gradient in expectation, with more noise.

    Each token's term is weighted by a + rejected (1 - a), where a = sum min(p, q) is the
    probability that a draft there is accepted: the expectation of a weight 1 on accepted and
    `rejected` on rejected drafts, without their noise. Nothing flows into p or a.
    """
    logq_BCV = _log_probs(model, batch)
    if batch.ids_BCM is None or batch.probs_BCM is None:
        terms_BC = -logq_BCV.gather(-1, batch.tokens_BC[..., None])[..., 0]
        weights_BC = batch.weights_BC
    else:
        p_BCM, p_rest_BC = batch.probs_BCM, _rest(batch.probs_BCM)
        logq_BCM = logq_BCV.gather(-1, batch.ids_BCM)
        q_BCM = logq_BCM.exp()
        q_rest_BC = _rest(q_BCM)
        logp_BCM = p_BCM.clamp_min(_LEAST).log()
        terms_BC = (p_BCM * (logp_BCM - logq_BCM)).sum(-1)
        terms_BC = terms_BC + p_rest_BC * (p_rest_BC.log() - q_rest_BC.log())
        accepted_BC = torch.minimum(p_BCM, q_BCM).sum(-1) + torch.minimum(p_rest_BC, q_rest_BC)
        accepted_BC = accepted_BC.detach().clamp(0.0, 1.0)
        weights_BC = batch.weights_BC * (accepted_BC + rejected * (1.0 - accepted_BC))
    return (weights_BC * terms_BC).sum() / batch.weights_BC.sum().clamp_min(_LEAST)


def _log_probs(model: torch.nn.Module, batch: Minibatch) -> Tensor:
    logits_BTV = model(input_ids=batch.inputs_BT, use_cache=False).logits
    index = batch.positions_BC[..., None].expand(-1, -1, logits_BTV.shape[-1])
    logits_BCV = logits_BTV.gather(1, index).float() / batch.temperature_B[:, None, None]
    return logits_BCV.log_softmax(-1)


def _rest(p_BCM: Tensor) -> Tensor:
    """Returns the probability of all tokens that are not listed."""
    # Where the listed tokens have it all, rounding can leave a rest below 0.
    return (1.0 - p_BCM.sum(-1)).clamp_min(_LEAST)
