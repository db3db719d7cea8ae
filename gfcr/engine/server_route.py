"""Placement: which of several servers a request is sent to."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, TypeAlias, final

from gfcr.engine.base import Request
from gfcr.engine.server_flight import Flight
from gfcr.engine.server_link import Server

Key: TypeAlias = str | tuple[int, ...]

_PREFIX: Final = 32
"""Leading tokens that identify a prompt without an id: the length of a prefix-cache block."""


class Placement(ABC):
    """Chooses the server of each request."""

    @abstractmethod
    def choose(self, request: Request, *, servers: Sequence[Server]) -> int | None:
        """Returns the index of the server for a request; None makes the request wait.

        Args:
            request: a request that is to be sent, or sent again.
            servers: all servers, in a fixed order.
        """

    @abstractmethod
    def forget(self) -> None:
        """Forgets which server has which prefix cached: new weights have emptied the caches."""

    def evicted(self, servers: Sequence[Server]) -> Sequence[Flight]:
        """Returns requests that must leave their server; each is placed again by `choose`."""
        return ()

    def scoring(self, servers: Sequence[Server]) -> Sequence[Server]:
        """Returns the servers that scores are asked of."""
        return [server for server in servers if server.up]


@final
class Route(Placement):
    """Prefers the server that has the prompt cached, otherwise the one with fewest requests.

    A server that has as many requests as it decodes together is passed over for one that has fewer:
    waiting there would cost more than computing a prompt again.
    """

    def __init__(self, *, seats: int) -> None:
        """Starts with nothing cached.

        Args:
            seats: requests that a server decodes together; more have to wait.
        """
        self._seats = seats
        self._homes: dict[Key, int] = {}

    def choose(self, request: Request, *, servers: Sequence[Server]) -> int | None:
        """See `Placement.choose`. A request waits only while no server is up."""
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
        self._homes.clear()


def key_of(request: Request) -> Key:
    """Returns what identifies the prefix that a request can share: prompt id or first tokens."""
    return request.prompt_id or request.tokens[:_PREFIX]
