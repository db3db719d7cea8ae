"""Tokens of a trajectory, with what is known of each: seen by parts, and compared at the end."""

from collections.abc import Sequence
from typing import Any

from gfcr.loop.guard import are_columns


class Columns:
    """Four lists of one length, and what they were filled with."""

    def __init__(self) -> None:
        self._clear()
        self._own: tuple[list[Any], ...] = ([], [], [], [])
        """The columns as they were filled."""

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
        own = self._own  # no loop: this is done at every token
        own[0].extend(new[0])
        own[1].extend(new[1])
        own[2].extend(new[2])
        own[3].extend(new[3])

    def _changed_by_hand(self) -> bool:
        columns = (self.tokens, self.logprobs, self.versions, self.mask)
        return not are_columns(*columns) or columns != self._own
