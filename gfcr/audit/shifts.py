"""The effect of planted biases on a sample's statistics, from which its power is computed.

Sums are kept by band, so that a bias can be supposed from a position on, or in long drafts only.
Bands are octaves: band b holds positions (or draft lengths) from 2^(b-1) to 2^b - 1, band 0 is 0.
"""

from collections.abc import Callable, Mapping
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

    def by_tilt(of: Callable[[Array], Array]) -> Array:
        return np.stack([by_band(of(change)) for change in changes], axis=2)

    planted = {**tilts.TILTS, "to_half": partial(tilts.towards, to=half)}
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
