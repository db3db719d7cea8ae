"""What the tests need of each sampled token and the law it should follow. Laws are then let go.

Each feature is a partition of the vocabulary into cells, chosen by the law (and the past) alone:
the cell the token fell into against the cells' probabilities. Suffix N: one entry per token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gfcr.audit import tilts
from gfcr.audit.law import Laws
from gfcr.types import Bools, Ints

RANKS = 8
"""The likeliest tokens have a cell each, all others share one more."""
EDGES = (1e-3, 1e-2, 0.03, 0.1, 0.3, 0.7)
"""Between the bins of predicted probability."""
BUCKETS = 64
"""Cells by token id (id modulo this, so ids themselves in small vocabularies)."""
RARE = 1e-4
"""Tokens below this probability are counted together against their expected number."""
PARTITIONS = ("rank", "probability", "token")

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Cells of one partition: which one was hit, what each should have got."""

    hit_N: Ints
    mass_NK: Array
    shift: dict[str, Array]
    """Per tilt, how much more of each cell it would make of the counted tokens, shape (K,)."""


@dataclass(frozen=True, kw_only=True)
class Features:
    """A sample reduced to what the tests use."""

    surprise_N: Array
    """log p(x) - E log p, in nats; -inf where the law has no such token."""
    surprise_var_N: Array
    surprise_shift: dict[str, float]
    """Per tilt, how much it would add to the counted tokens' surprises."""
    room: dict[str, float]
    """Per tilt, the total variation it reaches, summed over the counted tokens."""
    counted: int
    open: int
    """Counted tokens whose law has room: no token has nearly all the mass."""
    spread_N: Array
    """Randomised probability-integral transform in vocabulary order: uniform if lossless."""
    ranked_N: Array
    """The same in order of probability, likeliest first."""
    rare_N: Bools
    rare_mass_N: Array
    impossible_N: Bools
    partitions: dict[str, Partition]

    def __len__(self) -> int:
        return len(self.surprise_N)


def reduce(law: Laws, tokens: Ints, *, counted: Bools, seed: int, distance: float) -> Features:
    """Features of tokens and their laws, (N,) and (N, V).

    Args:
        law: the target probabilities.
        tokens: the tokens sampled.
        counted: the tokens in which the tilts below are supposed, shape (N,).
        seed: of the randomisation within a token's own probability.
        distance: total variation of the tilts whose effect on each cell is summed.
    """
    rows = np.arange(len(tokens))
    p = law[rows, tokens]
    with np.errstate(divide="ignore"):
        log = np.where(law > 0, np.log(np.maximum(law, 1e-300)), 0.0)
        logp = np.log(p)
    mean = (law * log).sum(-1)
    part = np.random.default_rng(seed).random(len(tokens)) * p
    ids: Ints = np.arange(law.shape[1], dtype=np.int32)
    lower: Bools = np.less(ids, tokens[:, None])
    larger: Bools = (law > p[:, None]) | ((law == p[:, None]) & lower)
    cells = {name: _cells(law, name) for name in PARTITIONS}
    moved = {
        name: _moved(law, tilt, counted=counted, distance=distance)
        for name, tilt in tilts.TILTS.items()
    }
    return Features(
        surprise_N=logp - mean,
        surprise_var_N=np.maximum((law * log**2).sum(-1) - mean**2, 0.0),
        surprise_shift={name: float((d * log).sum()) for name, d in moved.items()},
        room={name: 0.5 * float(np.abs(d).sum()) for name, d in moved.items()},
        counted=int(counted.sum()),
        open=int((counted & (law.max(-1) <= 1 - distance)).sum()),
        spread_N=np.where(lower, law, 0).sum(-1) + part,
        ranked_N=np.where(larger, law, 0).sum(-1) + part,
        rare_N=p < RARE,
        rare_mass_N=np.where(law < RARE, law, 0).sum(-1),
        impossible_N=p == 0,
        partitions={
            name: Partition(
                hit_N=cell[rows, tokens],
                mass_NK=_masses(law, cell, num=num),
                shift={tilt: _masses(d, cell, num=num).sum(0) for tilt, d in moved.items()},
            )
            for name, (cell, num) in cells.items()
        },
    )


def join(parts: Sequence[Features]) -> Features:
    """Features of all parts, in order."""
    assert parts, "no features to join"
    joined = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts])
        for f in fields(Features)
        if f.name.endswith("_N")
    }
    shift = {t: sum(p.surprise_shift[t] for p in parts) for t in tilts.TILTS}
    room = {t: sum(p.room[t] for p in parts) for t in tilts.TILTS}
    partitions = {n: _join([p.partitions[n] for p in parts]) for n in PARTITIONS}
    return Features(
        **joined,
        surprise_shift=shift,
        room=room,
        counted=sum(p.counted for p in parts),
        open=sum(p.open for p in parts),
        partitions=partitions,
    )


def _moved(law: Laws, tilt: tilts.Tilt, *, counted: Bools, distance: float) -> Laws:
    return (tilt(law, distance=distance) - law) * counted[:, None]


def _join(parts: Sequence[Partition]) -> Partition:
    return Partition(
        hit_N=np.concatenate([p.hit_N for p in parts]),
        mass_NK=np.concatenate([p.mass_NK for p in parts]),
        shift={t: np.sum([p.shift[t] for p in parts], axis=0) for t in tilts.TILTS},
    )


def _cells(law: Laws, name: str) -> tuple[Ints, int]:
    """The cell of each token of the vocabulary, shape (N, V), and the number of cells."""
    vocab = law.shape[1]
    if name == "token":
        ids = np.arange(vocab, dtype=np.int32) % BUCKETS
        return np.broadcast_to(ids, law.shape), min(vocab, BUCKETS)
    if name == "probability":
        return np.digitize(law, EDGES).astype(np.int32), len(EDGES) + 1
    ranks = min(RANKS, vocab)
    cell = np.full(law.shape, ranks, np.int32)
    first = np.argsort(-law, axis=-1, kind="stable")[:, :ranks]
    numbers = np.broadcast_to(np.arange(ranks, dtype=np.int32), first.shape)
    np.put_along_axis(cell, first, numbers, -1)
    return cell, ranks + 1


def _masses(values: Laws, cell: Ints, *, num: int) -> Array:
    """Sums of values by cell, shape (N, num)."""
    flat = cell + num * np.arange(len(values))[:, None]
    size = num * len(values)
    total = np.bincount(flat.ravel(), values.ravel(), size).astype(np.float64)
    return total.reshape(len(values), num)
