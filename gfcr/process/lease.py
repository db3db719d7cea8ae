"""Cores that a trial is lent for what it does now, by whoever runs several trials on one machine.

A file that both map has a row for each trial: what it wants to do, numbered, and the number and the
cores that it was granted. Nobody waits for anybody to read.
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
"""In the environment of a trial: the file, a colon, and its row."""
Kind: TypeAlias = Literal["start", "evaluate", "decode", "tail", "train"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_ASKED, _GRANTED, _CORES, _KIND = range(4)
_LOOK_S: Final = 0.001
_TAIL: Final = 1 / 8
"""Share of a batch's requests from which on its decoding is a tail: a second core helps little."""


@final
class Lease:
    """A trial's row."""

    def __init__(
        self,
        file: Path | str,
        *,
        row: int,
        sleep: Callable[[float], object] = time.sleep,
        use: Callable[[Iterable[int]], object] = confine,
    ) -> None:
        """Maps it.

        Args:
            file: made by `rows`.
            row: of the trial.
            sleep: seconds.
            use: confines the trial to cores.
        """
        held: Any = np.memmap(file, np.int64, mode="r+").reshape(-1, 4)
        self._row, self._sleep, self._use = held[row], sleep, use
        self._has = 0
        self._most = 0
        """Requests that this batch had in flight at a time."""

    # ------------------------------------------------------------ the trial's side

    def enter(self, kind: Kind) -> None:
        """What the trial did is over, this comes next; waits until it is granted cores for it."""
        self._row[_KIND], self._most = KINDS.index(kind), 0
        self._row[_ASKED] += 1
        while self._row[_GRANTED] < self._row[_ASKED]:
            self._sleep(_LOOK_S)
        self.look()

    def look(self) -> None:
        """Moves to the cores that it has now, if they are others."""
        if (cores := int(self._row[_CORES])) != self._has:
            self._has = cores
            self._use(i for i in range(63) if cores >> i & 1)

    def decoding(self, *, left: int) -> None:
        """Is about to decode so many requests; when few are left of a batch its tail begins."""
        self._most = max(self._most, left)
        if self.does == "decode" and left <= _TAIL * self._most:
            self.enter("tail")
        self.look()

    @property
    def does(self) -> Kind:
        """What the trial does, or waits to do."""
        return KINDS[int(self._row[_KIND])]

    # ------------------------------------------------------------ the lender's side

    @property
    def number(self) -> int:
        """Of what it asked for last; 0 before the first."""
        return int(self._row[_ASKED])

    @property
    def waits(self) -> bool:
        """Whether it was not granted that."""
        return bool(self._row[_GRANTED] < self._row[_ASKED])

    def grant(self, cores: Iterable[int]) -> None:
        """Lends it cores, for what it asked for last."""
        self._row[_CORES] = sum(1 << core for core in cores)
        self._row[_GRANTED] = self._row[_ASKED]


def rows(file: Path, *, num: int) -> Path:
    """Makes a file for so many trials."""
    file.write_bytes(np.zeros((num, 4), np.int64).tobytes())
    return file


@lru_cache(maxsize=1)
def mine() -> Lease | None:
    """This trial's, if its cores are lent to it."""
    file, _, row = os.environ.get(LEASE, "").rpartition(":")
    return Lease(file, row=int(row)) if file else None


def enter(kind: Kind) -> None:
    """See `Lease.enter`; without a lease it is nothing."""
    if (lease := mine()) is not None:
        lease.enter(kind)


def decoding(*, left: int) -> None:
    """See `Lease.decoding`; without a lease it is nothing."""
    if (lease := mine()) is not None:
        lease.decoding(left=left)


def look() -> None:
    """See `Lease.look`; without a lease it is nothing."""
    if (lease := mine()) is not None:
        lease.look()
