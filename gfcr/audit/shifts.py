"""The effect of planted biases on a sample's statistics, from which its power is computed.

Sums are kept by band, so that a bias can be supposed from a position on, or in long drafts only.
Bands are octaves: band b holds positions (or draft lengths) from 2^(b-1) to 2^b - 1, band 0 is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, final

import numpy as np

from gfcr.audit import tilts
from gfcr.audit.features import Array, Cells, logs, masses
from gfcr.audit.law import Laws
from gfcr.types import Bools, Ints

POSITION: Final = 0
"""Index of the bands of a token's position, for which biases are supposed in every token."""
DRAFT: Final = 1
"""Index of the bands of draft length, for tokens of verification steps, if there are any."""
BANDS: Final = 20


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
    surprise_T: Array
    """Amount that each tilt would add to the surprises."""
    cells: Mapping[str, Array]
    """Amount that each tilt would add to each cell, (T, K) by partition."""

    def tail(self, kind: int, *, first: int = 0) -> "Shifts":
        """Returns the sums of the bands from `first` on."""
        names = ("counted", "open", "room_T", "surprise_T")
        cells = {name: sums[kind, first:].sum(0) for name, sums in self.cells.items()}
        return Shifts(**{n: getattr(self, n)[kind, first:].sum(0) for n in names}, cells=cells)


def band(values: Ints) -> Ints:
    """Returns the octave of each value >= 0."""
    return np.minimum(np.frexp(values)[1], BANDS - 1).astype(np.int32)


def start(number: int) -> int:
    """Returns the first value of a band."""
    return 2 ** (number - 1) if number else 0


def measure(
    law: Laws,
    *,
    half: Bools,
    bands_2N: Ints,
    counted: Bools,
    cells: Mapping[str, Cells],
    distance: float,
) -> Shifts:
    """Computes what each tilt of `distance` would add to the tokens of these laws, (N, V).

    Args:
        law: the laws.
        half: whether each column belongs to the half that `to_half` favours, (N, V).
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

    planted = {**tilts.TILTS, "to_half": partial(tilts.towards, to=half)}
    moved = [tilt(law, distance=distance) - law for tilt in planted.values()]
    open_ = law.max(-1) <= 1 - distance
    return Shifts(
        counted=by_band(np.ones(len(law))),
        open=by_band(open_.astype(np.float64)),
        room_T=by_band(np.stack([0.5 * np.abs(d).sum(-1) for d in moved], axis=1)),
        surprise_T=by_band(np.stack([(d * log).sum(-1) for d in moved], axis=1)),
        cells={
            name: np.stack([by_band(masses(d, cell)) for d in moved], axis=2)
            for name, cell in cells.items()
        },
    )
