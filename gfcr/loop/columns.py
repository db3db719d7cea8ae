"""Tokens of a trajectory, with what is known of each, as the engine and the part give them."""

from collections.abc import Sequence
from typing import Any


class Columns:
    """Four lists of one length, and how long they are by what they were filled with."""

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
        """Whether a part appended to a list itself, where only the engine and `append` may."""
        return any(len(column) != self._filled for column in self._columns)
