"""What planted biases would add to the statistics of a sample: its power, before any is tested.

Sums are kept by band, so that a bias can be supposed from a position on, or in long drafts only.
Bands are octaves: band b holds positions (or draft lengths) from 2^(b-1) to 2^b - 1, band 0 is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from gfcr.audit import tilts
from gfcr.audit.features import PARTITIONS, Array, Cells, logs, masses
from gfcr.audit.law import Laws
from gfcr.types import Bools, Ints

POSITION: Final = 0
"""Bands of the token's position in its completion; biases are supposed in every token."""
DRAFT: Final = 1
"""Bands of the length of the draft that its step verified; in tokens of such steps, if any."""
BANDS: Final = 20


@final
@dataclass(frozen=True, kw_only=True)
class Shifts:
    """Sums over the tokens in which biases are supposed, by tilt.

    Leading axes (2, BANDS) are the kind of band and the band, while they are kept apart.
    """

    counted: Array
    open: Array
    """Tokens whose law has room: no token has nearly all the mass."""
    room: Mapping[str, Array]
    """The total variation that the tilt reaches."""
    surprise: Mapping[str, Array]
    """How much the tilt would add to the surprises."""
    cells: Mapping[str, Mapping[str, Array]]
    """By partition, how much more of each cell it would make."""

    def tail(self, kind: int, *, first: int = 0) -> "Shifts":
        """Of the bands from `first` on."""

        def of(sums: Array) -> Array:
            return sums[kind, first:].sum(0)

        return Shifts(
            counted=of(self.counted),
            open=of(self.open),
            room={t: of(a) for t, a in self.room.items()},
            surprise={t: of(a) for t, a in self.surprise.items()},
            cells={t: {n: of(a) for n, a in parts.items()} for t, parts in self.cells.items()},
        )


def band(values: Ints) -> Ints:
    """The octave of each value >= 0."""
    return np.minimum(np.frexp(values)[1], BANDS - 1).astype(np.int32)


def start(number: int) -> int:
    """The first value of a band."""
    return 2 ** (number - 1) if number else 0


def measure(
    law: Laws, *, bands_2N: Ints, counted: Bools, cells: Mapping[str, Cells], distance: float
) -> Shifts:
    """What each tilt of `distance` would do to the tokens of these laws, (N, V).

    Args:
        law: the laws.
        bands_2N: by kind, the band of each token.
        counted: the tokens in which `DRAFT` supposes biases.
        cells: of the vocabulary, by partition.
        distance: total variation.
    """
    log = logs(law)

    def by_band(values: Array) -> Array:
        sums = np.zeros((2, BANDS, *values.shape[1:]))
        np.add.at(sums[POSITION], bands_2N[POSITION], values)
        np.add.at(sums[DRAFT], bands_2N[DRAFT][counted], values[counted])
        return sums

    moved = {name: tilt(law, distance=distance) - law for name, tilt in tilts.TILTS.items()}
    open_ = law.max(-1) <= 1 - distance
    return Shifts(
        counted=by_band(np.ones(len(law))),
        open=by_band(open_.astype(np.float64)),
        room={n: by_band(0.5 * np.abs(d).sum(-1)) for n, d in moved.items()},
        surprise={n: by_band((d * log).sum(-1)) for n, d in moved.items()},
        cells={
            n: {part: by_band(masses(d, cell)) for part, cell in cells.items()}
            for n, d in moved.items()
        },
    )


def join(parts: Sequence[Shifts]) -> Shifts:
    """Of all parts."""
    return Shifts(
        counted=_sum([p.counted for p in parts]),
        open=_sum([p.open for p in parts]),
        room={t: _sum([p.room[t] for p in parts]) for t in tilts.TILTS},
        surprise={t: _sum([p.surprise[t] for p in parts]) for t in tilts.TILTS},
        cells={
            t: {n: _sum([p.cells[t][n] for p in parts]) for n in PARTITIONS} for t in tilts.TILTS
        },
    )


def _sum(arrays: Sequence[Array]) -> Array:
    return np.sum(arrays, axis=0)
