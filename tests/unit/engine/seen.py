"""Servers as placements see them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gfcr.engine.base import Request
from gfcr.engine.server_flight import Flight
from gfcr.types import Sampling


@dataclass
class Server:
    up: bool = True
    flights: dict[str, Flight] = field(default_factory=dict[str, Flight])
    heard_s: float = 0.0

    def add(self, *names: str, prompt: int = 8, gained: int = 0) -> "Server":
        for name in names:
            self.flights[name] = flight(name, prompt=prompt, gained=gained)
        return self


def flight(name: str, *, prompt: int = 8, gained: int = 0) -> Flight:
    law = Sampling(max_tokens=400)
    request = Request(id=name, tokens=tuple([2] * prompt), sampling=law, prompt_id=name)
    return Flight(request=request, version=0, cap=400, tokens=[3] * gained, key=name)


def seen(loads: Sequence[int | None]) -> list[Server]:
    """Servers with so many requests; None is down."""
    found: list[Server] = []
    for load in loads:
        server = Server(up=load is not None)
        found.append(server.add(*(str(i) for i in range(load or 0))))
    return found
