"""Knapsack RL: the value of rollouts, and the division that is worth most."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.knapsack import Knapsack, value
from gfcr.errors import ConfigError
from gfcr.stages import Harvest, Job
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over

COUNTS = st.lists(st.tuples(st.integers(0, 8), st.just(8)), min_size=1, max_size=3)


def _knows(counts: list[tuple[int, int]], **knobs: int) -> Knapsack:
    """A part that has visited prompts p0, p1, ... with so many right of so many."""
    part, groups = Knapsack(**knobs), tuple(_group(i, v) for i, v in enumerate(counts))
    part.observe(Harvest(step=0, groups=groups, aborted=()), view=make.view())
    return part


def _group(number: int, visit: tuple[int, int]) -> Group:
    right, scored = visit
    return make.group([1.0] * right + [0.0] * (scored - right), of=make.prompt(number))


def _shares(part: Knapsack, num: int, *, group_size: int = 4) -> list[int]:
    view = make.view(group_size=group_size)
    jobs = [view.job(make.prompt(i)) for i in range(num)]
    return [job.num_samples for job in part.allocate(jobs, view=view)]


@over(("rate", "chance"), [(0.5, 0.99), (0.05, 0.34), (0.01, 0.08)])
def test_the_chance_of_signal_with_eight_rollouts(rate: float, chance: float) -> None:
    one = np.array([8]), np.array([rate])
    assert value(*one)[0] / (rate * (1 - rate) ** 2) == pytest.approx(chance, abs=0.005)


def test_what_an_update_may_gain_is_most_at_a_third() -> None:
    rates = np.linspace(0, 1, 301)
    assert rates[value(np.array(10**9), rates).argmax()] == pytest.approx(1 / 3, abs=0.004)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.001, 0.999))
def test_values_are_concave_in_the_number(rate: float) -> None:
    values = value(np.arange(1, 94), np.array(rate))
    assert (np.diff(values, 2) <= 1e-15).all() and (np.diff(values) >= 0).all()


@settings(max_examples=100, deadline=None)
@given(COUNTS)
def test_no_division_of_the_uniform_budget_is_worth_more(visits: list[tuple[int, int]]) -> None:
    part, num = _knows(visits, low=2, high=9), len(visits)
    shares = _shares(part, num)
    rates = [(right + 0.5) / 9 for right, _ in visits]
    worth = {
        ns: sum(value(np.array(n), np.array(p)) for n, p in zip(ns, rates, strict=True))
        for ns in product(range(2, 10), repeat=num)
        if sum(ns) == 4 * num
    }
    assert worth[tuple(shares)] == pytest.approx(max(worth.values()), abs=1e-12)


def test_equal_rates_are_uniform() -> None:
    assert _shares(_knows([(3, 8)] * 5), 5) == [4] * 5


def test_saturated_prompts_get_the_least_and_hard_ones_the_most() -> None:
    part = _knows([(8, 8), (4, 8), (1, 8), (0, 8)])
    easy, middle, hard, unsolved = _shares(part, 4, group_size=16)
    assert easy == 2 and easy + middle + hard + unsolved == 64
    assert middle < hard < unsolved
    # Where there is little to divide, the likely gains come first.
    assert _shares(part, 4)[1] > _shares(part, 4)[3]


def test_unvisited_prompts_keep_the_group_size() -> None:
    assert _shares(Knapsack(), 3) == [4, 4, 4]
    shares = _shares(_knows([(8, 8), (1, 8)]), 3)
    assert shares[2] == 4 and sum(shares) == 12 and shares[0] == 2


def test_resumed_groups_are_left_as_they_are() -> None:
    part, view = _knows([(8, 8), (1, 8), (1, 8)]), make.view(group_size=4)
    resumed = Job(
        prompt=make.prompt(1), num_samples=3, sampling=view.sampling, resume=(make.rollout(),)
    )
    jobs = [view.job(make.prompt(0)), resumed, view.job(make.prompt(2))]
    assert [j.num_samples for j in part.allocate(jobs, view=view)] == [2, 3, 6]


def test_only_the_last_visits_count_and_only_what_was_scored() -> None:
    part, view = _knows([(8, 8)]), make.view()
    group = make.group([1.0, None, 0.0, None])
    part.observe(Harvest(step=1, groups=(group,), aborted=()), view=view)
    assert part.rate("p0") == 0.5
    dead = make.group([None, None])
    part.observe(Harvest(step=2, groups=(dead,), aborted=()), view=view)
    assert part.rate("p0") == 0.5
    both = _knows([(8, 8)], visits=2)
    both.observe(Harvest(step=1, groups=(group,), aborted=()), view=view)
    assert both.rate("p0") == (9 + 0.5) / 11


def test_bounds_that_exclude_the_group_size_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"knapsack: group_size=8 lies outside low=9"):
        strategies.load("knapsack", controls={"knapsack": {"low": 9}}).check()
    with pytest.raises(ConfigError, match=r"knapsack\.low=9 exceeds knapsack\.high=8"):
        Knapsack(low=9, high=8)


def test_the_second_epoch_costs_as_many_rollouts_and_has_more_signal() -> None:
    task = make.CoinTask(rates=(0.05, 0.95, 0.1, 0.9), num_train=32)
    run = make.pipeline(strategies.load("knapsack"), task=task, prompts=32)
    first, second = run.next_batch(), run.next_batch()
    sizes = [len(g.rollouts) for g in second.groups]
    assert {len(g.rollouts) for g in first.groups} == {8}
    assert sum(sizes) == 32 * 8 == second.metrics["controls.knapsack/total"]
    assert min(sizes) == 2 == second.metrics["controls.knapsack/least"]
    assert max(sizes) > 12 and second.metrics["controls.knapsack/known"] == 32

    def alive(groups: tuple[Group, ...]) -> int:
        hard = [g for g in groups if g.prompt.meta["rate"] in (0.05, 0.1)]
        return sum(bool(np.ptp(g.raw_rewards_N) > 0) for g in hard)

    assert alive(second.groups) > alive(first.groups)
