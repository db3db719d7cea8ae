"""Statistics of each sampled token under the law it should follow; the laws are then dropped.

Each feature is a partition of the vocabulary into cells, chosen by the law (and the past) alone:
the cell the token fell into against the cells' probabilities. Suffix N: one entry per token.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gfcr.audit.law import Laws
from gfcr.types import Bools, Ints

RANKS = 8
"""Number of likeliest tokens with a cell each; all others share one more."""
EDGES = (1e-3, 1e-2, 0.03, 0.1, 0.3, 0.7)
"""Edges of the bins of predicted probability."""
BUCKETS = 64
"""Number of cells by token id (id modulo this, so ids themselves in small vocabularies)."""
RARE = 1e-4
"""Probability below which tokens are counted together, against their expected number."""
PARTITIONS = ("rank", "probability", "token")

Array: TypeAlias = NDArray[np.float64]


class Cells(NamedTuple):
    """The cell of each token of the vocabulary, shape (N, V), and the number of cells."""

    of_NV: Ints
    num: int


@dataclass(frozen=True, kw_only=True)
class Partition:
    """The cell that was hit and the probability of each cell, in one partition."""

    hit_N: Ints
    mass_NK: Array


@dataclass(frozen=True, kw_only=True)
class Features:
    """A sample reduced to what the tests use."""

    logp_N: Array
    """Log-prob of the token in nats; -inf if the law gives it no probability."""
    surprise_N: Array
    """Difference log p(x) - E log p, in nats."""
    surprise_var_N: Array
    surprise_4th_N: Array
    """Its fourth moment, which few unlikely tokens make large."""
    spread_N: Array
    """Randomised probability-integral transform in vocabulary order: uniform if lossless."""
    ranked_N: Array
    """The same transform in order of probability, likeliest first."""
    rare_N: Bools
    rare_mass_N: Array
    impossible_N: Bools
    partitions: dict[str, Partition]

    def __len__(self) -> int:
        return len(self.surprise_N)


def reduce(law: Laws, tokens: Ints, *, cells: Mapping[str, Cells], seed: int) -> Features:
    """Reduces tokens (N,) and their laws (N, V) to features.

    Args:
        law: the probabilities that the tokens should have been drawn with.
        tokens: the tokens sampled.
        cells: cells of the vocabulary by partition, see `partition`.
        seed: seed of the randomisation within a token's own probability.
    """
    rows = np.arange(len(tokens))
    p = law[rows, tokens]
    log = logs(law)
    with np.errstate(divide="ignore"):
        logp = np.log(p)
    mean = (law * log).sum(-1)
    part = np.random.default_rng(seed).random(len(tokens)) * p
    ids: Ints = np.arange(law.shape[1], dtype=np.int32)
    lower: Bools = np.less(ids, tokens[:, None])
    larger: Bools = (law > p[:, None]) | ((law == p[:, None]) & lower)
    return Features(
        logp_N=logp,
        surprise_N=logp - mean,
        surprise_var_N=np.maximum((law * log**2).sum(-1) - mean**2, 0.0),
        surprise_4th_N=(law * (log - mean[:, None]) ** 4).sum(-1),
        spread_N=np.where(lower, law, 0).sum(-1) + part,
        ranked_N=np.where(larger, law, 0).sum(-1) + part,
        rare_N=p < RARE,
        rare_mass_N=np.where(law < RARE, law, 0).sum(-1),
        impossible_N=p == 0,
        partitions={
            name: Partition(hit_N=cell.of_NV[rows, tokens], mass_NK=masses(law, cell))
            for name, cell in cells.items()
        },
    )


def logs(law: Laws) -> Laws:
    """Returns log-probabilities, with 0 in place of -inf, for means under the law."""
    return np.where(law > 0, np.log(np.maximum(law, 1e-300)), 0.0)


def partition(law: Laws, *, ids: Ints) -> dict[str, Cells]:
    """Returns the cells of each partition, by name; `ids` (N, V) are the ids of the columns."""
    return {name: _cells(law, ids, name) for name in PARTITIONS}


def masses(values: Laws, cell: Cells) -> Array:
    """Sums values by cell, shape (N, num)."""
    flat = cell.of_NV + cell.num * np.arange(len(values))[:, None]
    size = cell.num * len(values)
    total = np.bincount(flat.ravel(), values.ravel(), size).astype(np.float64)
    return total.reshape(len(values), cell.num)


def _cells(law: Laws, ids: Ints, name: str) -> Cells:
    vocab = law.shape[1]
    if name == "token":
        return Cells(ids % BUCKETS, min(vocab, BUCKETS))
    if name == "probability":
        return Cells(np.digitize(law, EDGES).astype(np.int32), len(EDGES) + 1)
    ranks = min(RANKS, vocab)
    cell = np.full(law.shape, ranks, np.int32)
    first = np.argsort(-law, axis=-1, kind="stable")[:, :ranks]
    numbers = np.broadcast_to(np.arange(ranks, dtype=np.int32), first.shape)
    np.put_along_axis(cell, first, numbers, -1)
    return Cells(cell, ranks + 1)
