"""Where turns run beside serving: borrowed capacity first, and away from it when it stalls."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.cluster.gate import Gate
from gfcr.cluster.memory import KvBudget
from gfcr.engine.rose import Rose
from gfcr.engine.server_turns import BLOCK, Turns, blocks
from gfcr.errors import ConfigError
from tests.unit.engine.seen import Server, flight

INF = float("inf")


class Clock:
    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        return self.now


def turns(folder: Path, *, clock: Clock, **changes: Any) -> Turns:
    gate = Gate(folder / "new" / "gate", clock=clock)
    told: dict[str, Any] = {
        "gate": gate,
        "memory": KvBudget(blocks=100, headroom=0.2),
        "borrowed": 1,
        "seats": 2,
        "stall_s": 2.0,
        "clock": clock,
    }
    return Turns(**{**told, **changes})


def test_a_turn_goes_where_its_cache_is_then_to_borrowed_capacity_then_to_the_least_loaded(
    tmp_path: Path,
) -> None:
    clock = Clock()
    route = turns(tmp_path, clock=clock)
    one, other = flight("one").request, flight("other").request
    servers = [Server().add("a"), Server().add("b"), Server()]
    assert route.choose(one, servers=servers) == 0, "borrowed, though another is idle"
    full = [Server().add("a", "c"), Server().add("b"), Server()]
    assert route.choose(other, servers=full) == 2
    assert route.choose(other, servers=servers) == 2, "its prefix is cached there"
    route.gate.served(due_s=clock.now - 0.1, held=10)
    assert route.choose(one, servers=servers) == 2, "serving has no time to spare"
    route.gate.served(due_s=INF, held=0)
    route.forget()
    assert route.choose(one, servers=servers) == 0, "nothing is cached any more"
    assert route.choose(one, servers=[Server().add("a", "b")] * 3) is None
    assert route.choose(one, servers=[Server(up=False)] * 2) is None


def test_what_stalls_on_borrowed_capacity_goes_on_elsewhere(tmp_path: Path) -> None:
    clock = Clock()
    route = turns(tmp_path, clock=clock)
    servers = [Server(heard_s=9.0).add("a", "b"), Server(heard_s=0.0).add("own")]
    route.gate.served(due_s=9.5, held=0)
    assert route.evicted(servers) == []
    clock.now = 11.5
    assert [f.key for f in route.evicted(servers)] == ["a", "b"] and route.rerouted == 2
    route.gate.served(due_s=INF, held=0)
    assert route.evicted(servers) == [], "what nobody holds up hangs, and would come back to it"
    down = [Server(up=False, heard_s=0.0).add("a"), Server()]
    assert route.evicted(down) == [], "whoever starts it again has them"


def test_rollouts_make_room_for_what_is_served_once_an_update(tmp_path: Path) -> None:
    clock = Clock()
    route = turns(tmp_path, clock=clock, seats=16)
    held = Server(heard_s=clock.now)
    for name in ("old", "mid", "new"):
        held.add(name, prompt=19 * BLOCK, gained=BLOCK // 2)
    servers = [held, Server()]
    assert [blocks(f) for f in held.flights.values()] == [20, 20, 20]
    route.gate.served(due_s=INF, held=20 * BLOCK)
    assert route.evicted(servers) == []
    route.gate.served(due_s=INF, held=30 * BLOCK)
    assert [f.key for f in route.evicted(servers)] == ["new"], "half of 80 is left to them"
    del held.flights["new"]
    assert route.memory.cuts == 1 and route.evicted(servers) == []
    route.gate.served(due_s=INF, held=0)
    assert route.choose(flight("next").request, servers=servers) == 1, "frozen"
    assert route.choose(flight("next").request, servers=[Server()]) is None, "until the update"
    route.forget()
    assert route.choose(flight("another").request, servers=servers) == 0, "the update is over"


@given(
    due=st.floats(-5, 5),
    spent=st.integers(0, 90),
    loads=st.lists(st.integers(0, 4), min_size=2, max_size=4),
)
def test_borrowed_capacity_is_used_only_when_it_is_there(
    tmp_path_factory: pytest.TempPathFactory, due: float, spent: int, loads: list[int]
) -> None:
    clock = Clock()
    route = turns(tmp_path_factory.mktemp("gate"), clock=clock, seats=3)
    route.gate.served(due_s=clock.now + due, held=spent * BLOCK)
    servers = [Server().add(*map(str, range(load))) for load in loads]
    place = route.choose(flight("any").request, servers=servers)
    if place is None:
        assert all(load >= 3 for load in loads[1:])
    else:
        assert loads[place] < 3
        if place == 0:
            assert due > 0 and spent + 2 * loads[0] + 1 < 80


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"engine\.gate is empty"):
        Rose().check(None)
    with pytest.raises(ConfigError, match=r"those of 1 servers, there are 2"):
        Rose(gate="g", cores=["0"])
    with pytest.raises(ConfigError, match=r"dedicated=0"):  # what is evicted would wait for ever
        Rose(gate="g", dedicated=0)
    with pytest.raises(ConfigError, match="no list of cores"):
        Rose(gate="g", cores=["0", "x"])
