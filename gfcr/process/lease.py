"""Cores lent to a trial for its present sub-stage, when several trials share a machine.

Both sides map a file with a row for each trial: the kind and number of its last request, and the
number and cores of the last grant. Neither side ever waits to write or read.
"""

import os
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final, get_args

import numpy as np

from gfcr.process.cores import confine

LEASE: Final = "GFCR_LEASE"
"""Environment variable of a trial with its lease: the file, a colon, and the row."""
Kind: TypeAlias = Literal["start", "evaluate", "decode", "tail", "train"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_ASKED, _GRANTED, _KIND, _CORES = range(4)
_MOST_CORES: Final = 1024
"""Cores that Linux gives a process a choice of; a row has a bit for each, from `_CORES` on."""
_WIDTH: Final = _CORES + _MOST_CORES // 64
_POLL_S: Final = 0.001
_TAIL: Final = 1 / 8
"""Share of a batch's requests at which its tail begins, where a second core helps little."""


@final
class Lease:
    """A trial's row in the file."""

    def __init__(
        self,
        file: Path | str,
        *,
        row: int,
        sleep: Callable[[float], object] = time.sleep,
        use: Callable[[Iterable[int]], object] = confine,
    ) -> None:
        """Maps the row.

        Args:
            file: a file made by `rows`.
            row: index of the trial's row.
            sleep: sleeps for some seconds.
            use: confines the trial to cores.
        """
        held: Any = np.memmap(file, np.int64, mode="r+").reshape(-1, _WIDTH)
        self._row, self._sleep, self._use = held[row], sleep, use
        self._has = bytes(_MOST_CORES // 8)
        self._most = 0
        """Most requests that the present batch had in flight at a time."""

    # ------------------------------------------------------------ the trial's side

    def enter(self, kind: Kind) -> None:
        """Ends the present sub-stage, asks for cores for the next one, and waits for the grant."""
        self.ask(kind)
        while self.waits:
            self._sleep(_POLL_S)
        self.look()

    def ask(self, kind: Kind) -> None:
        """Asks for cores for a sub-stage."""
        # The kind comes before the number, by which the lender sees that there is a request.
        self._row[_KIND], self._most = KINDS.index(kind), 0
        self._row[_ASKED] += 1

    def look(self) -> None:
        """Moves to the cores that are granted now, if they have changed; none is half a grant."""
        if (cores := self._row[_CORES:].tobytes()) != self._has and any(cores):
            self._has = cores
            self._use(np.flatnonzero(np.unpackbits(np.frombuffer(cores, np.uint8))).tolist())

    def decoding(self, *, left: int) -> None:
        """Called before each decoding step with its requests; starts the tail once few are left."""
        self._most = max(self._most, left)
        if self.does == "decode" and left <= _TAIL * self._most:
            self.enter("tail")
        self.look()

    @property
    def does(self) -> Kind:
        """The sub-stage that the trial is in, or waits for."""
        return KINDS[int(self._row[_KIND])]

    # ------------------------------------------------------------ the lender's side

    @property
    def number(self) -> int:
        """Number of the last request for cores; 0 before the first."""
        return int(self._row[_ASKED])

    @property
    def waits(self) -> bool:
        """Returns whether the last request is not granted yet."""
        return bool(self._row[_GRANTED] < self._row[_ASKED])

    def grant(self, cores: Iterable[int]) -> None:
        """Grants cores for the last request."""
        lent = np.zeros(_MOST_CORES, np.bool_)
        lent[[*cores]] = True
        # The cores come before the number, by which the trial sees that the grant is whole.
        self._row[_CORES:] = np.packbits(lent).view(np.int64)
        self._row[_GRANTED] = self._row[_ASKED]


def rows(file: Path, *, num: int) -> Path:
    """Creates a file with `num` rows, one for each trial."""
    file.write_bytes(np.zeros((num, _WIDTH), np.int64).tobytes())
    return file


@lru_cache(maxsize=1)
def mine() -> Lease | None:
    """Returns this trial's lease; None if cores are not lent to it."""
    file, _, row = os.environ.get(LEASE, "").rpartition(":")
    return Lease(file, row=int(row)) if file else None


def enter(kind: Kind) -> None:
    """See `Lease.enter`; without a lease it does nothing."""
    if (lease := mine()) is not None:
        lease.enter(kind)


def decoding(*, left: int) -> None:
    """See `Lease.decoding`; without a lease it does nothing."""
    if (lease := mine()) is not None:
        lease.decoding(left=left)


def look() -> None:
    """See `Lease.look`; without a lease it does nothing."""
    if (lease := mine()) is not None:
        lease.look()
