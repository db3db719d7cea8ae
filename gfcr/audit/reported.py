"""Tests of reported log-probs against the law sampled from, since losses learn from them."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gfcr.audit.features import Array
from gfcr.audit.sampler import BONUS, PLAIN, VERIFIED, Sampled
from gfcr.types import Bools, Ints

INFINITE: Final = 1e6
"""Nats that stand for a log-prob that is not finite."""


def gaps(some: Sequence[Sampled]) -> Array:
    """Returns reported log-probs, one per token; NaN where none was reported."""
    return np.concatenate([_padded(s) for s in some])


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


def plus(
    first: Mapping[str, Mapping[str, float]], second: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Returns the summary of both tables' tokens together."""
    joined = {kind: dict(gap) for kind, gap in first.items()}
    for kind, gap in second.items():
        if kind not in joined:
            joined[kind] = dict(gap)
            continue
        one, num = joined[kind], joined[kind]["tokens"] + gap["tokens"]
        total = one["mean"] * one["tokens"] + gap["mean"] * gap["tokens"]
        joined[kind] = {"tokens": num, "mean": total / num, "most": max(one["most"], gap["most"])}
    return joined


def _padded(one: Sampled) -> Array:
    """Pads log-probs with NaN where none is reported; a reported NaN becomes inf, a wrong value."""
    said = np.array(one.logprobs, np.float64)
    said = np.where(np.isfinite(said), said, np.inf)
    missing = len(one.tokens) - len(said)
    # Lists of different lengths cannot be matched: all is wrong, unless nothing was said.
    if missing and len(said):
        return np.full(len(one.tokens), np.inf)
    return said if not missing else np.full(len(one.tokens), np.nan)
