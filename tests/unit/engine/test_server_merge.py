"""A tail goes on on one server, once, and only where it was more before."""

from collections.abc import Sequence

from gfcr.engine.pool import Pool
from gfcr.engine.server_merge import TailMerge
from gfcr.engine.server_route import Route
from tests.unit.engine.seen import Server, flight


def left(merge: TailMerge, servers: Sequence[Server]) -> list[str]:
    return [f.key for f in merge.evicted(servers)]


def test_a_tail_goes_to_the_server_that_holds_most_of_it_and_stays_there() -> None:
    merge = TailMerge(Route(seats=8), at=3)
    few = [Server().add("a"), Server().add("b", gained=9), Server().add("c")]
    assert left(merge, few) == [], "a batch that begins is no tail"
    many = [Server().add("a", "d"), Server().add("b", gained=9), Server().add("c")]
    assert left(merge, many) == []
    assert left(merge, few) == ["a", "c"]
    rest = [Server(), Server().add("b", gained=9), Server()]
    assert left(merge, rest) == [], "it is merged"
    assert [merge.choose(flight(n).request, servers=rest) for n in ("a", "c")] == [1, 1]
    assert merge.choose(flight("new").request, servers=rest) == 0, "what is new goes where it fits"
    rest[1].up = False
    assert merge.choose(flight("a").request, servers=rest) != 1


def test_new_weights_begin_anew() -> None:
    merge = TailMerge(Route(seats=8), at=2)
    left(merge, [Server().add("a", "b"), Server().add("c")])
    merge.forget()
    assert left(merge, [Server().add("a"), Server().add("b")]) == []


def test_a_pool_merges_only_when_it_is_told_to() -> None:
    assert isinstance(Pool()._placement(), Route)
    assert isinstance(Pool(merge=2)._placement(), TailMerge)
