"""Planted biases, and their effect on a sample's statistics, from which its power is computed.

Tilts are laws a stated total variation away from the target. They are used twice: to plant them in
a toy engine, and to compute what a sample could have shown. Where a law is too concentrated for the
stated distance, the tilt goes as far as it can.

Sums are kept by band, so that a bias can be supposed from a position on, or in long drafts only.
Bands are octaves: band b holds positions (or draft lengths) from 2^(b-1) to 2^b - 1, band 0 is 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, final

import numpy as np

from gfcr.audit.features import Array, Cells, logs, masses
from gfcr.audit.law import Laws
from gfcr.types import Bools, Ints

POSITION: Final = 0
"""Index of the bands of a token's position, for which biases are supposed in every token."""
DRAFT: Final = 1
"""Index of the bands of draft length, for tokens of verification steps, if there are any."""
BANDS: Final = 20

Tilt = Callable[..., Laws]


def to_top(law: Laws, *, distance: float) -> Laws:
    """Moves `distance` from all other tokens, in proportion, to the likeliest: too greedy."""
    return towards(law, to=_top(law), distance=distance)


def from_top(law: Laws, *, distance: float) -> Laws:
    """Moves `distance` from the likeliest token to the others, in proportion."""
    return towards(law, to=~_top(law), distance=distance)


def to_uniform(law: Laws, *, distance: float) -> Laws:
    """Mixes with the uniform law over the same support: too hot."""
    support = law > 0
    uniform = support / support.sum(-1, keepdims=True)
    apart = 0.5 * np.abs(law - uniform).sum(-1, keepdims=True)
    share = np.where(apart > 0, np.minimum(distance / np.maximum(apart, 1e-300), 1.0), 0.0)
    return law + share * (uniform - law)


def to_second(law: Laws, *, distance: float) -> Laws:
    """Moves `distance` from the likeliest token to the runner-up."""
    top = _top(law)
    second = _top(np.where(top, -1.0, law)) & (law > 0)
    moved = np.where(second.any(-1), np.minimum(distance, (law * top).sum(-1)), 0.0)
    return law + moved[:, None] * (second.astype(float) - top)


def to_half(law: Laws, *, distance: float) -> Laws:
    """Favours a fixed half of the vocabulary, in proportion: the hardest to see of given size."""
    return towards(law, to=np.broadcast_to(half(law.shape[1]), law.shape), distance=distance)


@cache
def half(vocab: int) -> Bools:
    """Returns which token ids belong to that half."""
    return np.random.default_rng(7).permutation(vocab) < vocab // 2


TILTS: Final[Mapping[str, Tilt]] = {
    f.__name__: f for f in (to_top, from_top, to_uniform, to_second, to_half)
}


def _top(law: Laws) -> Bools:
    ids: Ints = np.arange(law.shape[1], dtype=np.int32)
    return np.equal(ids, law.argmax(-1)[:, None])


def towards(law: Laws, *, to: Bools, distance: float) -> Laws:
    """Moves `distance` to some tokens; where these, or the others, have nothing, the law stays."""
    mass = (law * to).sum(-1, keepdims=True)
    movable = (mass > 1e-12) & (mass < 1 - 1e-12)
    safe = np.where(movable, mass, 0.5)
    moved = np.where(movable, np.minimum(distance, 1 - safe), 0.0)
    return law * np.where(to, 1 + moved / safe, 1 - moved / (1 - safe))


@final
@dataclass(frozen=True, kw_only=True)
class Shifts:
    """Sums over the tokens in which biases are supposed; suffix T: one entry per tilt.

    Leading axes (2, BANDS) are the kind of band and the band, while they are kept apart.
    """

    counted: Array
    open: Array
    """Number of tokens whose law has room: no token has nearly all the mass."""
    room_T: Array
    """Total variation that each tilt reaches."""
    tests: Mapping[str, Array]
    """Amount that each tilt would add to what is summed, by test, (T, K); K: number of cells."""

    def tail(self, kind: int, *, first: int = 0) -> "Shifts":
        """Returns the sums of the bands from `first` on."""
        counted, open_, room = (
            sums[kind, first:].sum(0) for sums in (self.counted, self.open, self.room_T)
        )
        tests = {name: sums[kind, first:].sum(0) for name, sums in self.tests.items()}
        return Shifts(counted=counted, open=open_, room_T=room, tests=tests)


def band(values: Ints) -> Ints:
    """Returns the octave of each value >= 0."""
    return np.minimum(np.frexp(values)[1], BANDS - 1).astype(np.int32)


def start(number: int) -> int:
    """Returns the first value of a band."""
    return 2 ** (number - 1) if number else 0


def measure(
    law: Laws,
    *,
    half_NV: Bools,
    bands_2N: Ints,
    counted: Bools,
    cells: Mapping[str, Cells],
    distance: float,
) -> Shifts:
    """Computes what each tilt of `distance` would add to the tokens of these laws, (N, V).

    Args:
        law: the laws.
        half_NV: whether each column belongs to the half that `to_half` favours.
        bands_2N: the band of each token, by kind of band.
        counted: the tokens in which `DRAFT` supposes biases.
        cells: cells of the vocabulary, by partition.
        distance: total variation of the tilts.
    """
    log = logs(law)

    def by_band(values: Array) -> Array:
        sums = np.zeros((2, BANDS, *values.shape[1:]))
        np.add.at(sums[POSITION], bands_2N[POSITION], values)
        np.add.at(sums[DRAFT], bands_2N[DRAFT][counted], values[counted])
        return sums

    def by_tilt(of: Callable[[Array], Array]) -> Array:
        return np.stack([by_band(of(change)) for change in changes], axis=2)

    planted = {**TILTS, "to_half": partial(towards, to=half_NV)}
    changes = [tilt(law, distance=distance) - law for tilt in planted.values()]
    open_ = law.max(-1) <= 1 - distance
    tests = {name: by_tilt(partial(masses, cell=cell)) for name, cell in cells.items()}
    tests["surprise"] = by_tilt(lambda change: (change * log).sum(-1, keepdims=True))
    tests["top"] = tests["rank"][..., :1]
    return Shifts(
        counted=by_band(np.ones(len(law))),
        open=by_band(open_.astype(np.float64)),
        room_T=by_tilt(lambda change: 0.5 * np.abs(change).sum(-1)),
        tests=tests,
    )
