"""Old responses that running requests follow, read so that unread tokens stay fresh draws.

A response may be the draft of a request only if its next token is a draw from the law it was made
with, whatever was decided before. So decisions may depend on nothing of it but the tokens read, and
`seen` counts those: comparing reads up to the first difference, and a response serves only a
request that has at least as many tokens as were ever read of it, all of them equal. Left over
because a sibling's next token was another one, or preferred because it ended first, it would be no
fresh draw any more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from gfcr.speculation.base import Law, Row
from gfcr.types import Ints
from gfcr.values.names import natural

Tokens: TypeAlias = NDArray[np.integer[Any]]
Context: TypeAlias = tuple[bytes, float, float, int, float]
"""What a request's law depends on: given tokens, temperature, top-p, top-k, min-p."""


@dataclass(kw_only=True, slots=True, eq=False)
class Response:
    """The completion of one earlier request, with the law of each token."""

    request_id: str
    slot: str
    context: Context
    step: int
    """Update that the response was made for."""
    tokens_T: Ints
    law: Law
    reused: int = 0
    """Number of its tokens that it took over from an older response."""
    cut: int | None = None
    """Length of the prefix shared with the first response it followed; None if it followed none."""
    seen: int = 0
    """Number of tokens read so far."""
    holder: str = ""
    """Id of the request that follows it now; empty if none does."""

    def agrees(self, made_T: Tokens) -> bool:
        """Returns whether the response continues `made_T`; reads as few tokens as will tell."""
        same, made = common(self.tokens_T, made_T), len(made_T)
        self.seen = max(self.seen, min(same + 1, made))
        return same == made < len(self.tokens_T)

    def grow(self, made_T: Ints, *, law: Law, follower: "Follower") -> None:
        """Goes on, to `made_T` in all, with what a later request of the continuation sampled.

        It stays the same object: who follows it must not meet a token of it a second time.
        """
        self.tokens_T, self.law = made_T, Law.joined([self.law, law])
        self.reused += follower.reused
        cuts = [cut for cut in (self.cut, follower.cut(made_T)) if cut is not None]
        self.cut = max(cuts, default=None)


@final
class Follower:
    """A running request and the old responses that it may follow."""

    def __init__(self, request_id: str, *, pool: Iterable[Response], again: bool) -> None:
        """Starts with no response followed.

        Args:
            request_id: id of the request.
            pool: responses with the same context, in an order that depends on none of their tokens.
            again: whether another response may be followed after the first.
        """
        self._id, self._pool, self._again = request_id, list(pool), again
        self._now: Response | None = None
        self._first: Response | None = None
        self._over = False
        self._start = 0
        self._draft: Sequence[int] = ()
        self.reused = 0
        """Number of draft tokens that were accepted."""

    def next(self, made_T: Tokens) -> Response | None:
        """Returns the response to follow after these tokens, preferring the one followed so far."""
        self._learn(made_T)
        if self._over:
            return None
        # The loop removes from the pool, and a stable sort lets no token decide the order.
        for response in sorted(self._pool, key=lambda r: r is not self._now):
            if response.holder not in ("", self._id) or response.seen > len(made_T):
                continue
            if response.agrees(made_T):
                self._now, response.holder = response, self._id
                self._first = self._first or response
                return response
            self._pool.remove(response)
            if response is self._now and self._leave():
                return None
        return None

    def drafted(self, tokens: Sequence[int], *, start: int) -> None:
        """Records the draft that will be verified after the first `start` tokens."""
        self._start, self._draft = start, tokens

    def end(self, made_T: Tokens) -> None:
        """Ends the request with these tokens, so that others may follow the response it held."""
        self._learn(made_T)
        if self._now is not None:
            self._now.agrees(made_T)
            self._leave()

    def cut(self, made_T: Tokens) -> int | None:
        """Returns the prefix length shared with the first response followed; None without one."""
        return None if self._first is None else common(self._first.tokens_T, made_T)

    def _learn(self, made_T: Tokens) -> None:
        if self._draft:
            came_T = made_T[self._start :]
            self.reused += common(came_T, np.array(self._draft))
            # A verification emits one token more than it accepts: fewer, and one was rejected.
            self._over = not self._again and len(came_T) <= len(self._draft)
            self._draft = ()

    def _leave(self) -> bool:
        assert self._now is not None
        self._now.holder, self._now = "", None
        self._over = not self._again
        return self._over


def context(row: Row) -> Context:
    """Returns what the law of a request's tokens depends on."""
    sampling, given = row.sampling, row.tokens_T[: row.prompt_length - row.begun].astype(np.int32)
    filters = (sampling.top_p, sampling.top_k, sampling.min_p)
    return (given.tobytes(), sampling.temperature, *filters)


def common(one_T: Tokens, other_T: Tokens) -> int:
    """Returns the length of the common prefix of two sequences."""
    shorter = min(len(one_T), len(other_T))
    different = np.flatnonzero(one_T[:shorter] != other_T[:shorter])
    return int(different[0]) if len(different) else shorter


def in_order(responses: Iterable[Response]) -> list[Response]:
    """Sorts by the order in which requests began; the order of their ends would tell lengths."""
    return sorted(responses, key=lambda response: natural(response.request_id))
