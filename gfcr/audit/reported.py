"""Tests of reported log-probs against the law sampled from, since losses learn from them."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gfcr.audit.features import Array
from gfcr.audit.sampler import BONUS, PLAIN, VERIFIED, Sampled
from gfcr.types import Bools, Ints

INFINITE: Final = 1e6
"""Nats that stand for a log-prob that is not finite."""


def logprobs(some: Sequence[Sampled]) -> Array:
    """Returns reported log-probs, one per token; NaN where none was reported, inf for a wrong one.

    Those of a request with more or fewer log-probs than tokens cannot be matched: all are wrong.
    """
    found: list[Array] = []
    for one in some:
        num = len(one.tokens)
        said = np.array(one.logprobs or [np.nan] * num, np.float64)
        wrong = bool(one.logprobs) & ~np.isfinite(said)
        found.append(np.where(wrong, np.inf, said) if len(said) == num else np.full(num, np.inf))
    return np.concatenate(found)


def table(gap_N: Array, *, state_N: Ints, hit_N: Bools) -> dict[str, dict[str, float]]:
    """Summarises absolute gaps by kind of token, as `tokens`, `mean` and `most`.

    A log-prob that is not finite, or a token whose law has none, is infinitely far.
    """
    kinds = {
        "plain": state_N == PLAIN,
        "accepted": (state_N == VERIFIED) & hit_N,
        "recovered": (state_N == VERIFIED) & ~hit_N,
        "bonus": state_N == BONUS,
    }
    found: dict[str, dict[str, float]] = {}
    for kind, mask in kinds.items():
        gap = np.minimum(np.abs(gap_N[mask & ~np.isnan(gap_N)]), INFINITE)
        if len(gap):
            found[kind] = {
                "tokens": len(gap),
                "mean": float(gap.mean()),
                "most": float(gap.max()),
            }
    return found
