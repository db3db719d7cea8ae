"""The tokens of a trajectory with the log-prob, policy version and mask of each."""

from collections.abc import Sequence
from typing import Any


class Columns:
    """Holds four lists of equal length, and counts the entries that `_fill` has put in."""

    def __init__(self) -> None:
        self._clear()
        self._filled = 0

    def _clear(self) -> None:
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        self.mask: list[bool] = []

    def _fill(self, *new: Sequence[Any]) -> None:
        """Appends to tokens, log-probs, versions and mask."""
        self.tokens += new[0]
        self.logprobs += new[1]
        self.versions += new[2]
        self.mask += new[3]
        self._filled += len(new[0])

    @property
    def _columns(self) -> tuple[list[int], list[float], list[int], list[bool]]:
        return self.tokens, self.logprobs, self.versions, self.mask

    def _changed_by_hand(self) -> bool:
        """Tells whether a part appended to a list itself; only the engine and `append` may."""
        return any(len(column) != self._filled for column in self._columns)
