"""Redundancy goes by the variance of lengths, and of it the tail is cut."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.darts import Darts, allotted
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from tests.cases import over
from tests.loops import aborts

weights = st.lists(st.floats(0, 1e4), min_size=1, max_size=12)


@given(weights, st.integers(0, 200), st.integers(0, 16))
def test_all_is_divided_within_bounds_and_more_goes_to_more_variance(
    weights: list[float], total: int, most: int
) -> None:
    given_ = allotted(np.array(weights), total=total, most=most)
    assert sum(given_) == min(total, most * len(weights))
    assert all(0 <= num <= most for num in given_)
    for i, j in ((i, j) for i in range(len(weights)) for j in range(len(weights))):
        assert weights[i] <= weights[j] or given_[i] >= given_[j]


@given(st.integers(1, 10), st.integers(0, 40), st.floats(0, 100))
def test_equal_variances_get_equal_shares(num: int, total: int, weight: float) -> None:
    given_ = allotted(np.full(num, weight), total=total, most=100)
    assert max(given_) - min(given_) <= 1


def test_shares_are_in_proportion_and_the_cap_s_excess_goes_on() -> None:
    assert allotted(np.array([1.0, 2.0, 3.0]), total=12, most=8) == [2, 4, 6]
    assert allotted(np.array([0.0, 1.0, 99.0]), total=12, most=8) == [0, 4, 8]
    assert allotted(np.array([0.0, 0.0, 1.0]), total=12, most=8) == [2, 2, 8]
    assert allotted(np.array([]), total=0, most=8) == []


def group(number: int, lengths: list[int]) -> Any:
    of = make.prompt(number)
    return make.group_of(
        [make.rollout(i, length=n, of=of) for i, n in enumerate(lengths)], id=f"g{number}"
    )


def test_jobs_grow_by_the_variance_of_the_last_visit_never_beyond_twice() -> None:
    part, view = Darts(redundancy=0.5), make.view(group_size=4)
    harvest = Harvest(step=0, groups=(group(0, [5, 5, 5]), group(1, [1, 40, 80])), aborted=())
    part.observe(harvest, view=view)
    jobs = [view.job(make.prompt(number)) for number in (0, 1)]
    assert [j.num_samples for j in part.allocate(jobs, view=view)] == [4, 8]
    assert part.metrics()["begun"] == 6.0
    new = [*jobs, view.job(make.prompt(2))]
    # One not seen before counts as the mean of those known.
    assert [j.num_samples for j in part.allocate(new, view=view)] == [4, 8, 6]


def test_pruned_rollouts_count_with_what_they_had() -> None:
    part, view = Darts(), make.view()
    long = make.rollout(7, length=50, group_id="g0", of=make.prompt(0))
    stray = make.rollout(8, length=99, group_id="elsewhere")
    # Of the prompt asked, also where its rollouts were given another wording of it.
    asked = replace(group(0, [5, 5]), prompt=make.prompt(3))
    harvest = Harvest(step=0, groups=(asked,), aborted=(long, stray))
    part.observe(harvest, view=view)
    assert part.variances == {"p3": pytest.approx(np.var([5, 5, 50]))}


def test_what_goes_on_from_earlier_stays_as_it_is() -> None:
    part, view = Darts(), make.view(group_size=4)
    held = make.rollout(0)
    job = view.job(held.prompt).__class__(
        prompt=held.prompt, num_samples=4, sampling=view.sampling, resume=(held,)
    )
    assert part.allocate([job], view=view) == [job]


@over(("prune", "left"), [(0.0, 8), (0.5, 6), (1.0, 4)])
def test_the_last_of_the_redundant_ones_are_cut_and_no_others(prune: float, left: int) -> None:
    """Sample i of a prompt writes 2 (i + 1) tokens: the longest ones are the last."""
    script = make.scripted(lambda r: "7" * (2 * (int(r.slot[1:]) + 1)))
    plan = strategies.load(
        "darts", group_size=4, shortest=2, longest=2, redundancy=1.0, prune=prune
    )
    pipeline = make.pipeline(plan, script=script, prompts=3)
    batch = pipeline.next_batch()
    assert len(batch.aborted) == 3 * (8 - left)
    assert batch.metrics["controls.darts/pruned"] == len(batch.aborted)
    assert all(r.detail == "controls.darts: tail" for r in batch.aborted)
    for made in batch.groups:
        assert sorted(map(len, made.rollouts)) == [2 * (i + 1) + 1 for i in range(left)]
        kept = [len(r) for r, keep in zip(made.rollouts, made.kept_N, strict=True) if keep]
        expected = [3, 5, 2 * left - 1, 2 * left + 1]
        assert sorted(kept) == expected
    assert batch.metrics.get("rejected/dual_end", 0.0) == 3 * (left - 4)
    # Where another part has aborted four of eight, none is redundant.
    plan = strategies.load("darts", group_size=4, redundancy=1.0, prune=prune)
    plan = replace(plan, controls={"first": aborts(*"0123"), **plan.controls})
    few = make.pipeline(plan, script=script, prompts=3).next_batch()
    assert [len(made.rollouts) for made in few.groups] == [4] * 3


def test_it_costs_less_steps_than_waiting_for_all() -> None:
    def steps(prune: float) -> int:
        script = make.scripted(lambda r: "7" * (4 * (int(r.slot[1:]) + 1)))
        plan = strategies.load("darts", redundancy=1.0, prune=prune)
        pipeline = make.pipeline(plan, script=script, max_tokens=100)
        pipeline.next_batch()
        return pipeline.engine.stats().forward_passes

    assert steps(1.0) < 0.6 * steps(0.0)


@over("other", [{"generate": {"name": "entropy_tree"}}, {"controls": {"k": {"name": "knapsack"}}}])
def test_what_is_not_redundant_is_not_taken_for_it(other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"takes all rollouts beyond that for redundant"):
        strategies.load("darts", **other).check()


@over("bad", [{"redundancy": -1.0}, {"most": 0.5}, {"prune": 1.1}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"Darts.{next(iter(bad))}="):
        Darts(**bad)
