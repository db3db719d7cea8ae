"""Which server a request goes to, whatever comes and whoever dies."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gfcr.engine.base import Request
from gfcr.engine.server_route import Route
from gfcr.types import Sampling
from tests.unit.engine.seen import seen

SEATS = 8


def request(prompt: int, *, named: bool = True) -> Request:
    name = f"prompt-{prompt}" if named else ""
    tokens = tuple([prompt] * 40)
    return Request(id="any", tokens=tokens, sampling=Sampling(max_tokens=4), prompt_id=name)


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 4), st.booleans())
def test_a_prompt_stays_where_it_is_cached_while_there_is_a_seat(
    prompts: list[int], servers: int, named: bool
) -> None:
    route, loads, homes = Route(seats=SEATS), [0] * servers, dict[int, int]()
    for prompt in prompts:
        place = route.choose(request(prompt, named=named), servers=seen(loads))
        assert place is not None
        home = homes.get(prompt)
        if home is not None and loads[home] < SEATS:
            assert place == home
        if place != home:
            assert loads[place] == min(loads)
        homes[prompt] = place
        loads[place] += 1


@given(st.lists(st.integers(1, SEATS), max_size=40), st.integers(1, 4))
def test_servers_differ_by_one_group_or_seat_at_most(groups: list[int], servers: int) -> None:
    """Groups are no larger than what a server decodes together, as everywhere."""
    route, loads = Route(seats=SEATS), [0] * servers
    for prompt, group in enumerate(groups):
        for _ in range(group):
            place = route.choose(request(prompt), servers=seen(loads))
            assert place is not None
            loads[place] += 1
    assert max(loads) - min(loads) <= SEATS


@given(st.data())
def test_none_goes_to_a_server_that_is_down(data: st.DataObject) -> None:
    route, sent = Route(seats=SEATS), Counter[int]()
    for _ in range(30):
        loads = data.draw(st.lists(st.none() | st.integers(0, 20), min_size=3, max_size=3))
        place = route.choose(request(data.draw(st.integers(0, 3))), servers=seen(loads))
        if all(load is None for load in loads):
            assert place is None
        else:
            assert place is not None and loads[place] is not None
            sent[place] += 1


def test_what_is_forgotten_may_move() -> None:
    route = Route(seats=SEATS)
    assert route.choose(request(1), servers=seen([0, 0])) == 0
    assert route.choose(request(1), servers=seen([1, 0])) == 0
    route.forget()
    assert route.choose(request(1), servers=seen([1, 0])) == 1
    assert route.choose(request(1), servers=seen([0, SEATS])) == 0, "it has no seat left there"
