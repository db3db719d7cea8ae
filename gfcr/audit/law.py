"""The target law of a sampling setting, many positions at a time. Shapes: N positions, V tokens."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gfcr.types import Bools, Ints, Sampling

Laws: TypeAlias = NDArray[np.float64]
"""Probabilities, shape (N, V), rows summing to 1."""

TOLERANCE = 1e-4
"""Log-prob difference allowed between two float32 implementations of a model (measured: 2e-5)."""
EDGE = 1e-3
"""Relative difference of p and q below which float32 cannot tell which one is larger."""
FLOOR = 3e-5
"""Share of the target mixed into the law given a draft: an engine whose p is smaller than ours by a
rounding may reject what we would always keep, and one token must not decide by that."""
LEFT = 0.02
"""Least mass of a residual whose shape is known: it is a difference of two rounded numbers."""


class Target(NamedTuple):
    """The law of each position, and the positions at which float32 cannot tell it."""

    law: Laws
    unclear: Bools
    """Shape (N,): a token lies on the edge of what the filters keep. Known without the token
    sampled there, so that leaving such positions out biases nothing."""


def target_law(logprobs: Laws, *, sampling: Sampling, tie: float = TOLERANCE) -> Target:
    """Returns the law after temperature, top-k, top-p and min-p, as `engine.toy_law.filtered` does.

    Args:
        logprobs: the model's log-probs, shape (N, V), each row up to a constant; -inf for tokens
            it never emits.
        sampling: sampling with `temperature > 0`.
        tie: log-prob difference of two tokens that the engine may order either way.
    """
    assert sampling.temperature > 0, "greedy tokens have no law: compare them with the argmax"
    logits = np.asarray(logprobs, np.float64) / sampling.temperature
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    keep = np.ones(p.shape, np.bool_)
    # Filters cut at an edge: a token within rounding of it may be kept by one engine alone.
    unclear = np.zeros(len(p), np.bool_)
    if sampling.top_p < 1 or 0 < sampling.top_k < p.shape[1]:
        _cut_sorted(p, keep=keep, unclear=unclear, sampling=sampling, tie=tie)
    if sampling.min_p:
        _cut_small(p, keep=keep, unclear=unclear, min_p=sampling.min_p, tie=tie)
    p = np.where(keep, p, 0.0)
    return Target(p / p.sum(-1, keepdims=True), unclear)


def _cut_sorted(p: Laws, *, keep: Bools, unclear: Bools, sampling: Sampling, tie: float) -> None:
    order = np.argsort(-p, axis=-1, kind="stable")
    ranked = np.take_along_axis(p, order, -1)
    before = np.cumsum(ranked, -1) - ranked
    kept = before < sampling.top_p
    if sampling.top_p < 1:
        near = np.abs(before - sampling.top_p) < tie * np.minimum(before, 1 - before) + 1e-6
        unclear |= (near & (ranked > 0)).any(-1)
    if 0 < sampling.top_k < p.shape[1]:
        kept[:, sampling.top_k :] = False
        last, next_ = ranked[:, sampling.top_k - 1], ranked[:, sampling.top_k]
        unclear |= (next_ > 0) & (last <= next_ * (1 + 2 * tie))
    np.put_along_axis(keep, order, kept, -1)


def _cut_small(p: Laws, *, keep: Bools, unclear: Bools, min_p: float, tie: float) -> None:
    ratio = p / (min_p * p.max(-1, keepdims=True))
    keep &= ratio >= 1
    unclear |= (np.abs(ratio - 1) < 2 * tie).any(-1)


class Verification(NamedTuple):
    """The laws of exact speculative sampling for given drafts. Shapes: D drafts, V tokens."""

    residual: Laws
    """Law after a rejection: (p - q)+, normalised; the target where nothing is left."""
    given: Laws
    """Law of the token given its draft: equal to the target's only on average over drafts."""
    clear: Bools
    """Whether enough is left for float32 to know the residual and it has no draft token, shape
    (D,)."""


def verification(p: Laws, *, draft: Ints, q: Laws) -> Verification:
    """Applies the rule of Leviathan et al. (2211.17192) to draft tokens drawn from q.

    Args:
        p: the target's laws, (D, V).
        draft: the draft tokens, (D,).
        q: the laws they were drawn from, (D, V); a point mass for a function of the past.
    """
    rows = np.arange(len(p))
    own = q[rows, draft]
    accept = np.where(own > 0, np.minimum(1.0, p[rows, draft] / np.maximum(own, 1e-300)), 0.0)
    # Where p and q are as close as float32 can tell, either may be the larger one.
    edge = np.where((p > 0) & (np.abs(p - q) <= EDGE * p), EDGE * p, 0.0)
    left = np.maximum(p - q, edge)
    left[rows, draft] = np.where(own > 0, np.maximum(p[rows, draft] - own, 0.0), p[rows, draft])
    total = left.sum(-1, keepdims=True)
    residual = np.where(total > 0, left / np.maximum(total, 1e-300), p)
    given = (1 - accept)[:, None] * residual
    given[rows, draft] += accept
    given = (1 - FLOOR) * given + FLOOR * p
    return Verification(residual, given, (total[:, 0] >= LEFT) & (own > 0))
