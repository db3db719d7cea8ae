"""The tokens of a trajectory with log-prob, policy version, mask and request of each."""

from collections.abc import Sequence
from typing import Any

from gfcr.engine.base import Delta
from gfcr.types import Sampling, Span


class Columns:
    """Holds four lists of equal length, and counts the entries that `_fill` has put in."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._clear()
        self._filled = 0
        self._spans: list[Span] = []
        self._request, self._gained = "", 0
        """The last request that gave tokens, and how many; it is not in `_spans` yet."""

    @property
    def spans(self) -> list[Span]:
        """The spans of tokens by the request that generated them, in order."""
        last = Span(request_id=self._request, start=0, stop=self._gained)
        return [*self._spans, last] if self._gained else list(self._spans)

    @property
    def _room(self) -> int:
        """The number of tokens it may still gain under its cap."""
        return self.sampling.max_tokens - len(self.tokens)

    @property
    def _sampled_last(self) -> int:
        """The number of tokens at the end that the policy sampled, all those behind any others."""
        return next((n for n, own in enumerate(reversed(self.mask)) if not own), len(self.mask))

    def _clear(self) -> None:
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        self.mask: list[bool] = []

    def _fill(self, *new: Sequence[Any]) -> None:
        """Appends to tokens, log-probs, versions and mask."""
        for column, values in zip(self._columns, new, strict=True):
            column.extend(values)
        self._filled += len(new[0])

    def extend(self, delta: Delta) -> None:
        """Appends the tokens that the engine sampled."""
        if not (num := len(delta.tokens)):
            return
        self._fill(delta.tokens, delta.logprobs, (delta.version,) * num, (True,) * num)
        if delta.request_id != self._request:
            self._spans, self._request, self._gained = self.spans, delta.request_id, 0
        self._gained += num

    def _take_back(self, num: int) -> Span:
        """Removes the last `num` tokens, of the last request, and returns where they were."""
        for column in self._columns:
            del column[len(column) - num :]
        self._filled -= num
        self._gained -= num
        return Span(request_id=self._request, start=self._gained, stop=self._gained + num)

    @property
    def _columns(self) -> tuple[list[int], list[float], list[int], list[bool]]:
        return self.tokens, self.logprobs, self.versions, self.mask

    def _changed_by_hand(self) -> bool:
        """Tells whether a part appended to a list itself; only the engine and `append` may."""
        return any(len(column) != self._filled for column in self._columns)
