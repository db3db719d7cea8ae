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
from gfcr.engine.server_link import Server
from gfcr.engine.server_route import Key, Placement, key_of

BLOCK: Final = 32
"""Tokens per block of KV cache."""


@final
class Turns(Placement):
    """Places rollouts on servers of which the first are borrowed from serving."""

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
        """Starts with nothing cached.

        Args:
            gate: tells when serving can spare the borrowed device.
            memory: budget of the borrowed device's KV cache.
            borrowed: number of borrowed servers, which come first.
            seats: most rollouts that a server is sent at a time.
            stall_s: seconds behind a shut gate after which a borrowed server loses its rollouts.
            clock: time in seconds, the same clock as `Server.heard_s`.
        """
        self.gate, self.memory = gate, memory
        self._borrowed, self._seats, self._stall_s = borrowed, seats, stall_s
        self._clock = clock
        self._last: dict[Key, int] = {}
        self.rerouted = 0
        """Number of rollouts that had to leave a server."""

    def choose(self, request: Request, *, servers: Sequence[Server]) -> int | None:
        free = [i for i in range(len(servers)) if self._takes(i, servers, request=request)]
        if not free:
            return None
        own = self._last.get(key := key_of(request))
        if own not in free:
            # Borrowed servers first: what serving can spare is free.
            own = min(free, key=lambda i: (i >= self._borrowed, len(servers[i].flights), i))
        self._last[key] = own
        return own

    def evicted(self, servers: Sequence[Server]) -> Sequence[Flight]:
        """See `Placement.evicted`: rollouts that serving's memory displaces, and stalled ones."""
        named = {f.key: f for s in servers[: self._borrowed] for f in s.flights.values()}
        held = {key: blocks(flight) for key, flight in named.items()}
        gone = {*self.memory.look(serving=self._serving(), held=held)}
        for server in servers[: self._borrowed]:
            num = len(server.flights)
            silent = server.up and num and self._clock() - server.heard_s > self._stall_s
            # One that is silent while its gate is open hangs, which is for its time-out to end.
            if silent and not self.gate.tokens(least=num, most=num):
                gone.update(server.flights)
        self.rerouted += len(gone)
        return [named[key] for key in named if key in gone]

    def scoring(self, servers: Sequence[Server]) -> Sequence[Server]:
        """See `Placement.scoring`: serving may hold up a borrowed one beyond any time-out."""
        return super().scoring(servers[self._borrowed :])

    def forget(self) -> None:
        """See `Placement.forget`. The rollouts' share of memory may grow again."""
        self._last.clear()
        self.memory.updated()

    def _takes(self, number: int, servers: Sequence[Server], *, request: Request) -> bool:
        server = servers[number]
        if not server.up or len(server.flights) >= self._seats:
            return False
        if number >= self._borrowed:
            return True
        flights = [f for s in servers[: self._borrowed] for f in s.flights.values()]
        # Each request in flight may need one block more before the next look.
        room = self.memory.room(
            serving=self._serving(), rollouts=sum(map(blocks, flights)) + len(flights)
        )
        # What the request samples may begin a block beyond those of its prompt.
        return room > -(-len(request.tokens) // BLOCK) and self.gate.tokens(least=1, most=1) > 0

    def _serving(self) -> int:
        return ceil(self.gate.held / BLOCK)


def blocks(flight: Flight) -> int:
    """Returns the blocks of KV cache that a request holds, including its next token."""
    return ceil((len(flight.request.tokens) + len(flight.tokens) + 1) / BLOCK)
