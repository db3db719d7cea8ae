"""Predicts success rates of prompts from those of similar prompts, by a Gaussian process."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

PRIOR_VARIANCE = 1 / 12
"""The variance of an unknown rate, which is that of a uniform distribution."""


def ngram_features(tokens: Sequence[int], *, dims: int = 256, most: int = 3) -> NDArray[np.float64]:
    """Returns n-gram counts up to `most` tokens, hashed into `dims` entries, of length 1."""
    data, ends = np.array(tokens, "<i4").tobytes(), range(4, 4 * len(tokens) + 1, 4)
    grams = (data[end - 4 * n : end] for n in range(1, most + 1) for end in ends[n - 1 :])
    # Python's own hash differs from process to process, and a resumed run must agree.
    hashed = np.fromiter((crc32(gram) % dims for gram in grams), np.int64)
    counts = np.bincount(hashed, minlength=dims).astype(np.float64)
    return counts / max(float(np.linalg.norm(counts)), 1e-12)


def rbf(
    left_MD: NDArray[np.float64], right_ND: NDArray[np.float64], *, scale: float
) -> NDArray[np.float64]:
    """Returns exp(-|x - y|^2 / (2 scale^2)) for each pair of rows."""
    squares = (left_MD**2).sum(1)[:, None] + (right_ND**2).sum(1)[None]
    # Rounding can make the squared distance of equal rows negative.
    distances = np.maximum(squares - 2 * left_MD @ right_ND.T, 0)
    return np.exp(-distances / (2 * scale**2))


def posterior_mean(
    known_MD: NDArray[np.float64],
    rates_M: NDArray[np.float64],
    noise_M: NDArray[np.float64],
    asked_PD: NDArray[np.float64],
    *,
    scale: float,
) -> NDArray[np.float64]:
    """Returns the mean of a Gaussian process with an RBF kernel, given rates and variances.

    Far from all known prompts it is the mean rate, or 1/2 where none is known.
    """
    if not len(rates_M):
        return np.full(len(asked_PD), 0.5)
    prior = float(rates_M.mean())
    among = PRIOR_VARIANCE * rbf(known_MD, known_MD, scale=scale) + np.diag(noise_M)
    across = PRIOR_VARIANCE * rbf(asked_PD, known_MD, scale=scale)
    return prior + across @ np.linalg.solve(among, rates_M - prior)
