"""What lets rollouts into a serving engine, what takes their memory back, and where turns go."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rose.trace import Trace
from benchmarks.systems.coserving import let_in
from gfcr.cluster.memory import KvBudget
from gfcr.cluster.slack import Admission, Objectives, Served
from gfcr.errors import ConfigError
from gfcr.speculation.cost import PassCost

COST = PassCost(base_s=0.01, token_s=0.001)
ADMISSION = Admission(
    objectives=Objectives(ttft_s=0.5, tpot_s=0.1), cost=COST, chunk=100, reserve=0.0
)


def test_without_requests_all_is_let_in() -> None:
    assert let_in(ADMISSION, [], now=0, most=64) == 64


def test_slack_of_decoding_is_what_the_iteration_leaves_of_the_budget() -> None:
    """Last token at 1.00, so the next by 1.10; at 1.05 an iteration of two takes 0.012."""
    decoding = [
        Served(arrived_s=0, waiting=0, last_s=1.0),
        Served(arrived_s=0, waiting=0, last_s=1.02),
    ]
    assert ADMISSION.slack_s(decoding, now=1.05) == pytest.approx(0.05 - 0.012)
    assert let_in(ADMISSION, decoding, now=1.05, most=1000) == 38
    assert let_in(ADMISSION, decoding, now=1.05, most=10) == 10
    assert let_in(ADMISSION, decoding, now=1.095, most=10) == 0


def test_slack_of_a_prompt_counts_all_that_waits() -> None:
    """150 tokens in two passes of 0.01 s: 0.17 s of the 0.5."""
    waiting = [Served(arrived_s=0, waiting=70), Served(arrived_s=0.1, waiting=80)]
    assert ADMISSION.slack_s(waiting, now=0.2) == pytest.approx(0.3 - 0.17)


def test_a_reserve_is_left_to_what_comes_next() -> None:
    """Half of 0.5 s: what waits is let wait for 0.25 s, and less its own pass, then for none."""
    half = replace(ADMISSION, reserve=0.5)
    waiting = [Served(arrived_s=0, waiting=70)]
    assert half.slack_s(waiting, now=0.1) == pytest.approx(0.25 - 0.1 - 0.08)
    assert let_in(half, waiting, now=0.2, most=9) == 0 < let_in(ADMISSION, waiting, now=0.2, most=9)


@given(now=st.floats(0, 10), decodes=st.booleans())
def test_with_all_of_the_budgets_left_rollouts_compute_on_an_idle_engine_alone(
    now: float, decodes: bool
) -> None:
    idle = replace(ADMISSION, reserve=1.0)
    served = Served(arrived_s=now, waiting=0 if decodes else 9, last_s=now if decodes else None)
    assert idle.slack_s([served], now=now) < 0 < idle.slack_s([], now=now)


@given(
    last=st.lists(st.floats(0, 1), max_size=5),
    waiting=st.lists(st.integers(1, 300), max_size=4),
    most=st.integers(0, 500),
)
def test_what_is_let_in_breaks_no_budget_that_was_not_broken(
    last: list[float], waiting: list[int], most: int
) -> None:
    served = [Served(arrived_s=0, waiting=0, last_s=at) for at in last]
    served += [Served(arrived_s=0.9, waiting=tokens) for tokens in waiting]
    admitted = let_in(ADMISSION, served, now=1.0, most=most)
    assert 0 <= admitted <= most
    if admitted:
        first = min(sum(waiting), ADMISSION.chunk)
        ends = 1.0 + COST.seconds(tokens=len(last) + first + admitted)
        assert all(ends <= at + 0.1 + 1e-9 for at in last)


def test_memory_is_cut_once_and_frozen_until_the_update_is_over() -> None:
    budget = KvBudget(blocks=100, headroom=0.2)
    assert budget.room(serving=10, rollouts=30) == 40
    held = {"old": 30, "mid": 20, "new": 10}
    assert budget.look(serving=20, held=held) == []
    assert budget.look(serving=25, held=held) == ["new", "mid"], "to half of 80, and 30 fit"
    assert (budget.budget, budget.frozen, budget.cuts) == (40, True, 1)
    assert budget.room(serving=0, rollouts=30) == 0, "frozen, though all is free again"
    assert budget.look(serving=60, held={"old": 30}) == ["old"]
    assert budget.cuts == 1 and budget.budget == 40, "one cut an update"
    budget.updated()
    assert budget.room(serving=10, rollouts=30) == 40


@given(
    serving=st.lists(st.integers(0, 100), min_size=1, max_size=30),
    sizes=st.lists(st.integers(1, 30), max_size=8),
)
def test_after_a_look_the_headroom_is_free_or_no_rollout_is_left(
    serving: list[int], sizes: list[int]
) -> None:
    budget = KvBudget(blocks=100, headroom=0.2)
    held = {str(n): size for n, size in enumerate(sizes)}
    for used in serving:
        for name in budget.look(serving=used, held=held):
            del held[name]
        assert not held or used + sum(held.values()) <= 80
        assert budget.room(serving=used, rollouts=sum(held.values())) >= 0


def test_a_trace_is_its_seeds_and_as_bursty_as_it_says() -> None:
    trace = Trace(seconds=4000, rate=2.0, burst=6.0, share=0.15, burst_s=4.0)
    found = trace.arrivals()
    assert found == trace.arrivals()
    assert found != Trace(seconds=4000, rate=2.0, burst=6.0, burst_s=4.0, seed=1).arrivals()
    times = np.array([arrival.at_s for arrival in found])
    assert np.all(np.diff(times) > 0) and times[-1] < 4000
    assert len(found) / 4000 == pytest.approx(2.0, rel=0.15)
    per_second = np.bincount(times.astype(int), minlength=4000)
    assert per_second.max() / per_second.mean() > 4
    assert per_second.var() / per_second.mean() > 1.5, "Poisson alone has 1"
    assert np.mean([a.prompt for a in found]) == pytest.approx(64, rel=0.1)
    short = [len(Trace(seconds=2.0, rate=10.0, seed=seed).arrivals()) for seed in range(400)]
    assert np.mean(short) == pytest.approx(20, rel=0.1), "it need not begin in calm"


def test_a_trace_is_bounded_in_count_and_time() -> None:
    with pytest.raises(ConfigError, match=r"rate=100, seconds=1e\+06: 1e\+08 .* than 10,000"):
        Trace(seconds=1e6, rate=100.0)
    assert all(a.at_s < 3 for a in Trace(seconds=3, rate=100.0).arrivals())
    assert all(
        a.prompt <= 20 and a.output <= 20 for a in Trace(seconds=9, rate=50, longest=20).arrivals()
    )
    with pytest.raises(ConfigError, match="rate"):
        Trace(seconds=1, rate=0)


# ---------------------------------------------------------------- admission, played and tried


def _served(last: list[float], waiting: list[tuple[float, int]]) -> list[Served]:
    decoding = [Served(arrived_s=0, waiting=0, last_s=at) for at in last]
    return decoding + [Served(arrived_s=at, waiting=tokens) for at, tokens in waiting]


def _kept(served: list[Served], *, rollouts: int, of: Admission) -> bool:
    """Plays iterations, `rollouts` tokens in the first, until each request has its next token."""
    now, queue = 1.0, [r for r in served if r.last_s is None]
    decoding = [r for r in served if r.last_s is not None]
    left, first = sum(r.waiting for r in queue), True
    while first or left:
        prefilled = min(left, of.chunk)
        extra = rollouts if first else 0
        now += of.cost.seconds(tokens=len(decoding) + prefilled + extra)
        left -= prefilled
        if first and any(now >= (r.last_s or 0) + of.objectives.tpot_s for r in decoding):
            return False
        first = False
    return not queue or now < min(r.arrived_s for r in queue) + of.objectives.ttft_s


requests = st.builds(
    _served,
    st.lists(st.floats(0.9, 1), max_size=4),
    st.lists(st.tuples(st.floats(0.5, 1), st.integers(1, 150)), max_size=3),
)


@given(served=requests, most=st.integers(0, 120))
def test_as_much_is_let_in_as_a_scheduler_that_tries_every_number(
    served: list[Served], most: int
) -> None:
    """What is due at the very end of a step may go either way: floats."""
    found = let_in(ADMISSION, served, now=1.0, most=most)
    tried = [n for n in range(most + 1) if _kept(served, rollouts=n, of=ADMISSION)]
    assert abs(found - max(tried, default=0)) <= 1
    if ADMISSION.slack_s(served, now=1.0) <= 0:
        assert found == 0, "nothing at negative slack"


@given(
    served=requests,
    most=st.integers(0, 500),
    tighter=st.tuples(st.floats(0.1, 1), st.floats(0.1, 1)),
    reserve=st.floats(0, 1),
)
def test_tighter_budgets_and_larger_reserves_never_let_in_more(
    served: list[Served], most: int, tighter: tuple[float, float], reserve: float
) -> None:
    objectives = Objectives(ttft_s=0.5 * tighter[0], tpot_s=0.1 * tighter[1])
    admitted = let_in(ADMISSION, served, now=1.0, most=most)
    for other in (
        replace(ADMISSION, objectives=objectives),
        replace(ADMISSION, reserve=reserve),
    ):
        assert let_in(other, served, now=1.0, most=most) <= admitted
