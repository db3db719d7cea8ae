"""Merges the last requests of a batch onto one server (JigsawRL, 2604.23838)."""

from collections.abc import Sequence
from typing import final

from gfcr.engine.base import Request
from gfcr.engine.server_flight import Flight
from gfcr.engine.server_link import Server
from gfcr.engine.server_route import Placement


@final
class TailMerge(Placement):
    """Follows another placement until so few requests are left that one server is enough."""

    def __init__(self, rest: Placement, *, at: int) -> None:
        """Starts with nothing in flight.

        Args:
            rest: the placement of everything that is not merged.
            at: most requests of a tail, counted over all servers.
        """
        self._rest, self._at = rest, at
        self._full = False
        """Whether more than `at` requests were in flight since the last merge."""
        self._keeper, self._moved = 0, frozenset[str]()

    def choose(self, request: Request, *, servers: Sequence[Server]) -> int | None:
        if request.id in self._moved and servers[self._keeper].up:
            return self._keeper
        return self._rest.choose(request, servers=servers)

    def evicted(self, servers: Sequence[Server]) -> Sequence[Flight]:
        """See `Placement.evicted`: all requests but those of the server that holds most tokens."""
        gone = self._rest.evicted(servers)
        left = sum(len(server.flights) for server in servers)
        if left > self._at or not self._full:
            self._full = self._full or left > self._at
            return gone
        self._full = False
        flights = [server.flights.values() for server in servers]
        held = [sum(len(f.request.tokens) + len(f.tokens) for f in each) for each in flights]
        # Moved requests are prefilled again: those that stay are the most expensive to move.
        self._keeper = max(range(len(servers)), key=held.__getitem__)
        others = [s for i, s in enumerate(servers) if i != self._keeper and s.up]
        moved = [flight for server in others for flight in server.flights.values()]
        self._moved = frozenset(flight.request.id for flight in moved)
        return [*gone, *(flight for flight in moved if flight not in gone)]

    def forget(self) -> None:
        """See `Placement.forget`. Requests after a weight sync are not the tail of earlier ones."""
        self._rest.forget()
        self._full = False
