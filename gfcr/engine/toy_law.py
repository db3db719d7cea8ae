"""Random, seeded next-token distributions that are exactly known, for the fake engine."""

from functools import lru_cache

import numpy as np

from gfcr.seeds import rng
from gfcr.types import Floats, Sampling


# One cache for all engines of the process: making a law takes longer than using it.
@lru_cache(maxsize=65536)
def toy_law(
    seed: int,
    version: int,
    context: tuple[int, ...],
    *,
    letters: int,
    mean_length: float,
    sampling: Sampling,
) -> Floats:
    """Returns a random distribution for each (version, last two tokens), shape (4 + letters,).

    The end of sequence has probability 1 / mean_length; other special tokens never occur.
    """
    p = np.zeros(4 + letters)
    weights = rng(seed, "table", version, *context).dirichlet(np.ones(letters))
    end = 1 / mean_length
    p[1], p[4:] = end, (1 - end) * weights
    law = filtered(p.astype(np.float32), sampling=sampling)
    law.setflags(write=False)
    return law


def filtered(p: Floats, *, sampling: Sampling) -> Floats:
    """Returns `p` after temperature (0 is greedy), top-k, top-p and min-p, renormalised."""
    if sampling.temperature == 0:
        return np.eye(len(p), dtype=np.float32)[int(p.argmax())]
    with np.errstate(divide="ignore"):
        logits = np.log(p.astype(np.float64)) / sampling.temperature
    q = np.exp(logits - logits.max())
    q /= q.sum()
    order = np.argsort(-q, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(q[order])[:-1]])
    keep = np.zeros(len(q), np.bool_)
    keep[order[before < sampling.top_p]] = True
    if sampling.top_k:
        keep[order[sampling.top_k :]] = False
    keep &= q >= sampling.min_p * q.max()
    q = np.where(keep, q, 0.0)
    return (q / q.sum()).astype(np.float32)
