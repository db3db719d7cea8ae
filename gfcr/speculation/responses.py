"""Old responses that running requests follow, read so that unread tokens stay fresh draws.

A response may be the draft of a request only if its next token is a draw from the law it was made
with, whatever was decided before. So decisions may depend on nothing of it but the tokens read, and
`seen` counts those: comparing reads up to the first difference, and a response serves only a
request that has at least as many tokens as were ever read of it, all of them equal. Left over
because a sibling's next token was another one, or preferred because it ended first, it would be no
fresh draw any more.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from gfcr.speculation.base import Law, Row
from gfcr.types import Ints

Tokens: TypeAlias = NDArray[np.integer[Any]]
Context: TypeAlias = tuple[bytes, float, float, int, float]
"""What a request's law depends on: all tokens given, temperature, top-p, top-k, min-p."""


@dataclass(kw_only=True, slots=True, eq=False)
class Response:
    """What one request became, with the law of each token."""

    request_id: str
    slot: str
    context: Context
    step: int
    """Update it was made for."""
    tokens_T: Ints
    law: Law
    reused: int = 0
    """How many of its tokens were those of an older response."""
    cut: int | None = None
    """Tokens it shares with the first response it followed; None: it followed none."""
    seen: int = 0
    """Tokens read."""
    holder: str = ""
    """Request that follows it."""

    def agrees(self, made_T: Tokens) -> bool:
        """Whether it starts like this and goes on; reads as little as will tell."""
        same, made = common(self.tokens_T, made_T), len(made_T)
        self.seen = max(self.seen, min(same + 1, made))
        return same == made < len(self.tokens_T)


@final
class Follower:
    """A running request among the old responses it may follow."""

    def __init__(self, request_id: str, *, pool: Iterable[Response], again: bool) -> None:
        """Begins with the request.

        Args:
            request_id: of the request.
            pool: responses with its context, in an order that tells nothing of them.
            again: whether another one is followed after the first.
        """
        self._id, self._pool, self._again = request_id, list(pool), again
        self._now: Response | None = None
        self._first: Response | None = None
        self._over = False
        self._start = 0
        self._draft: Sequence[int] = ()
        self.reused = 0
        """Tokens that came as they were drafted."""

    def next(self, made_T: Tokens) -> Response | None:
        """The response to follow after these tokens: the one followed so far if it agrees."""
        self._learn(made_T)
        if self._over:
            return None
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
        """These tokens are to be verified after the first `start`."""
        self._start, self._draft = start, tokens

    def end(self, made_T: Tokens) -> None:
        """The request has ended with these tokens: what it held is free for others."""
        self._learn(made_T)
        if self._now is not None:
            self._now.agrees(made_T)
            self._leave()

    def cut(self, made_T: Tokens) -> int | None:
        """Tokens shared with the response followed first; None: none was followed."""
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
    """What the law of a request's tokens depends on."""
    sampling, given = row.sampling, row.tokens_T[: row.prompt_length].astype(np.int32)
    filters = (sampling.top_p, sampling.top_k, sampling.min_p)
    return (given.tobytes(), sampling.temperature, *filters)


def common(one_T: Tokens, other_T: Tokens) -> int:
    """Tokens that two sequences share from their beginnings."""
    shorter = min(len(one_T), len(other_T))
    different = np.flatnonzero(one_T[:shorter] != other_T[:shorter])
    return int(different[0]) if len(different) else shorter


def in_order(responses: Iterable[Response]) -> list[Response]:
    """As their requests were begun; the order of their ends would tell how long they are."""

    def natural(response: Response) -> list[tuple[int, str]]:
        words = re.split(r"(\d+)", response.request_id)
        return [(int(w), "") if w.isdigit() else (0, w) for w in words]

    return sorted(responses, key=natural)
