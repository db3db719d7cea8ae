"""Which of several servers a request goes to."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeAlias, final

from gfcr.engine.base import Request
from gfcr.engine.server_flight import Flight

Key: TypeAlias = str | tuple[int, ...]

_PREFIX: Final = 32
"""Tokens by which requests without a prompt id are told apart: a block of the prefix cache."""


class Seen(Protocol):
    """What is known of a server."""

    @property
    def up(self) -> bool:
        """Whether it answers."""
        ...

    @property
    def flights(self) -> Mapping[str, Flight]:
        """What it has, the oldest first."""
        ...

    @property
    def heard_s(self) -> float:
        """When it was last heard of, or was sent something while it had nothing."""
        ...


class Placement(ABC):
    """Chooses servers."""

    @abstractmethod
    def choose(self, request: Request, *, servers: Sequence[Seen]) -> int | None:
        """The server for a request; None: it waits.

        Args:
            request: to be sent, or sent again.
            servers: all that there are.
        """

    @abstractmethod
    def forget(self) -> None:
        """New weights: nothing is cached any more."""

    def evicted(self, servers: Sequence[Seen]) -> Sequence[Flight]:
        """What is to leave the server it is on, and to go on wherever it is sent then."""
        return ()


@final
class Route(Placement):
    """Where a prompt is cached, then the idlest.

    A server that has as many requests as it decodes together is passed over for one that has fewer:
    waiting there would cost more than computing a prompt again.
    """

    def __init__(self, *, seats: int) -> None:
        """Nothing is cached.

        Args:
            seats: requests that a server decodes together.
        """
        self._seats = seats
        self._homes: dict[Key, int] = {}

    def choose(self, request: Request, *, servers: Sequence[Seen]) -> int | None:
        """See `Placement.choose`: None while no server is there."""
        there = {i: len(server.flights) for i, server in enumerate(servers) if server.up}
        if not there:
            return None
        idlest = min(there, key=lambda i: (there[i], i))
        home = self._homes.get(key := key_of(request))
        if home in there and (there[home] < self._seats or there[home] <= there[idlest]):
            return home
        self._homes[key] = idlest
        return idlest

    def forget(self) -> None:
        """See `Placement.forget`."""
        self._homes.clear()


def key_of(request: Request) -> Key:
    """What requests that share a cached prefix have in common."""
    return request.prompt_id or request.tokens[:_PREFIX]
