"""A tail on one server: the last requests of a batch go on together (JigsawRL, 2604.23838)."""

from collections.abc import Sequence
from typing import final

from gfcr.engine.base import Request
from gfcr.engine.server_flight import Flight
from gfcr.engine.server_route import Placement, Seen


@final
class TailMerge(Placement):
    """Another placement, until so few requests are left that one server is enough for them.

    They go on there with the tokens that they have, which it computes again; the others' devices
    are free for whoever shares them. Until then there must have been more requests.
    """

    def __init__(self, rest: Placement, *, at: int) -> None:
        """Nothing is in flight.

        Args:
            rest: places everything else.
            at: most requests of a tail, on all servers together.
        """
        self._rest, self._at = rest, at
        self._full = False
        """Whether there were more since the last merge."""
        self._keeper, self._moved = 0, frozenset[str]()

    def choose(self, request: Request, *, servers: Sequence[Seen]) -> int | None:
        """See `Placement.choose`."""
        if request.id in self._moved and servers[self._keeper].up:
            return self._keeper
        return self._rest.choose(request, servers=servers)

    def evicted(self, servers: Sequence[Seen]) -> Sequence[Flight]:
        """See `Placement.evicted`: all but what is on the server that holds most tokens."""
        gone = self._rest.evicted(servers)
        left = sum(len(server.flights) for server in servers)
        if left > self._at or not self._full:
            self._full = self._full or left > self._at
            return gone
        self._full = False
        held = [sum(map(_tokens, server.flights.values())) for server in servers]
        self._keeper = max(range(len(servers)), key=held.__getitem__)
        others = [s for i, s in enumerate(servers) if i != self._keeper and s.up]
        moved = [flight for server in others for flight in server.flights.values()]
        self._moved = frozenset(flight.request.id for flight in moved)
        return [*gone, *(flight for flight in moved if flight not in gone)]

    def forget(self) -> None:
        """See `Placement.forget`. What comes then is no tail of what was before."""
        self._rest.forget()
        self._full = False


def _tokens(flight: Flight) -> int:
    return len(flight.request.tokens) + len(flight.tokens)
