"""Where the next turn of a rollout runs, with servers borrowed from serving (ROSE, 2605.06534).

Its own last server, whose cache has its prefix, as long as that may take it; else a borrowed one
whose serving has time and memory to spare; else the one with the fewest rollouts; else it waits.
What stalls on a borrowed server, or holds memory that serving needs, goes on elsewhere.
"""

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, final

from gfcr.cluster.gate import Gate
from gfcr.cluster.memory import KvBudget
from gfcr.engine.base import Request
from gfcr.engine.server_flight import Flight
from gfcr.engine.server_route import Key, Placement, Seen, key_of

BLOCK: Final = 32
"""Tokens of a block of KV memory."""


@final
class Turns(Placement):
    """Servers of which the first are borrowed."""

    def __init__(
        self,
        *,
        gate: Gate,
        memory: KvBudget,
        borrowed: int,
        seats: int,
        stall_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is cached.

        Args:
            gate: of the device that is borrowed.
            memory: of it.
            borrowed: how many servers are on it: the first ones.
            seats: rollouts a server decodes together; more are not sent to it.
            stall_s: a borrowed server that has rollouts and says nothing for so long has lost them.
            clock: in seconds, as servers are heard.
        """
        self.gate, self.memory = gate, memory
        self._borrowed, self._seats, self._stall_s = borrowed, seats, stall_s
        self._clock = clock
        self._last: dict[Key, int] = {}
        self.rerouted = 0
        """Rollouts that had to leave a server."""

    def choose(self, request: Request, *, servers: Sequence[Seen]) -> int | None:
        """See `Placement.choose`."""
        free = [i for i in range(len(servers)) if self._takes(i, servers, request=request)]
        if not free:
            return None
        own = self._last.get(key := key_of(request))
        if own not in free:
            own = min(free, key=lambda i: (i >= self._borrowed, len(servers[i].flights), i))
        self._last[key] = own
        return own

    def evicted(self, servers: Sequence[Seen]) -> Sequence[Flight]:
        """See `Placement.evicted`: one cut an update, and what has stalled."""
        named = {f.key: f for s in servers[: self._borrowed] for f in s.flights.values()}
        held = {key: blocks(flight) for key, flight in named.items()}
        gone = {*self.memory.look(serving=self._serving(), held=held)}
        for server in servers[: self._borrowed]:
            if server.up and server.flights and self._clock() - server.heard_s > self._stall_s:
                gone.update(server.flights)
        self.rerouted += len(gone)
        return [named[key] for key in named if key in gone]

    def forget(self) -> None:
        """See `Placement.forget`. Memory that was cut may grow again."""
        self._last.clear()
        self.memory.updated()

    def _takes(self, number: int, servers: Sequence[Seen], *, request: Request) -> bool:
        server = servers[number]
        if not server.up or len(server.flights) >= self._seats:
            return False
        if number >= self._borrowed:
            return True
        flights = [f for s in servers[: self._borrowed] for f in s.flights.values()]
        # Each that is in flight may need a block more before the next look.
        room = self.memory.room(
            serving=self._serving(), rollouts=sum(map(blocks, flights)) + len(flights)
        )
        return room > -(-len(request.tokens) // BLOCK) and self.gate.tokens(least=1, most=1) > 0

    def _serving(self) -> int:
        return ceil(self.gate.held / BLOCK)


def blocks(flight: Flight) -> int:
    """Blocks of KV memory that a request holds."""
    return ceil((len(flight.request.tokens) + len(flight.tokens) + 1) / BLOCK)
