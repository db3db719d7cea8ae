"""The closed-form draft budget against brute force, the cost fit, and the classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr.errors import ConfigError
from gfcr.speculation.budget import (
    LengthClass,
    LengthClasses,
    Saturation,
    best_budget,
    fit_pass_cost,
)
from gfcr.speculation.cost import PassCost

REQUEST = st.tuples(st.floats(5, 200), st.floats(0.1, 1.0), st.floats(0.2, 2.0))
COST = st.builds(PassCost, base_s=st.floats(0.1, 10), token_s=st.floats(0.001, 1))


def saturation(*requests: tuple[float, float, float]) -> Saturation:
    lengths_N, share_N, rate_N = (np.array(column) for column in zip(*requests, strict=True))
    return Saturation(lengths_N=lengths_N, share_N=share_N, rate_N=rate_N)


def classes() -> LengthClasses:
    return LengthClasses(medium_from=10, long_from=40, medium_draft=4, long_draft=8)


@given(REQUEST, st.floats(0.01, 1.2))
def test_the_closed_form_is_the_fewest_drafts_that_meet_the_passes(
    request: tuple[float, float, float], part: float
) -> None:
    one = saturation(request)
    least = float(one.lengths_N[0] * (1 - one.share_N[0]))
    target = least + part * (float(one.lengths_N[0]) - least)
    drafts = float(one.proposals(target)[0])
    assert one.passes([drafts])[0] <= target + 1e-6
    if drafts > 0:
        assert one.passes([drafts * 0.999])[0] > target
    else:
        assert target >= request[0] * (1 - 1e-12)


@given(REQUEST)
def test_no_budget_reaches_what_only_unlimited_drafting_would(
    request: tuple[float, float, float],
) -> None:
    one = saturation(request)
    assert np.isinf(one.proposals(request[0] * (1 - request[1]) * (1 - 1e-9))[0])


@given(REQUEST, REQUEST, COST)
@settings(deadline=None, max_examples=60)
def test_the_best_budget_beats_every_pair_on_a_grid(
    first: tuple[float, float, float], second: tuple[float, float, float], cost: PassCost
) -> None:
    both = saturation(first, second)
    best_N = best_budget(both, cost=cost)
    seconds = cost.seconds(passes=float(both.passes(best_N).max()), tokens=float(best_N.sum()))
    # Brute force over both requests' drafts: nothing of the closed form is used.
    grid = np.linspace(0, 12, 241)
    p_G2 = np.stack([grid * both.lengths_N[0], grid * both.lengths_N[1]], axis=1)
    passes_G2 = np.stack([both.passes(p) for p in p_G2])
    slowest_GG = np.maximum(passes_G2[:, None, 0], passes_G2[None, :, 1])
    brute_GG = cost.base_s * slowest_GG + cost.token_s * (p_G2[:, None, 0] + p_G2[None, :, 1])
    assert seconds <= brute_GG.min() * (1 + 1e-6)


def test_the_printed_form_of_the_paper_misses_the_passes_it_promises() -> None:
    one = saturation((100.0, 0.6, 1.0))
    printed = -100.0 * np.log(1 - 0.6 * (1 - 70 / 100))
    assert one.passes(one.proposals(70.0))[0] == pytest.approx(70.0)
    assert one.passes([printed])[0] > 85


@given(st.lists(REQUEST, min_size=1, max_size=6), COST)
@settings(deadline=None)
def test_only_requests_longer_than_the_slowest_pass_count_are_drafted_for(
    requests: list[tuple[float, float, float]], cost: PassCost
) -> None:
    many = saturation(*requests)
    best_N = best_budget(many, cost=cost)
    slowest = many.passes(best_N).max()
    assert ((best_N > 0) <= (many.lengths_N > slowest - 1e-9)).all()


@given(COST, st.integers(0, 1000))
def test_a_linear_cost_is_recovered(cost: PassCost, seed: int) -> None:
    draws = np.random.default_rng(seed)
    passes_U, tokens_U = draws.integers(50, 500, 6), draws.integers(1000, 9000, 6)
    seconds_U = cost.base_s * passes_U + cost.token_s * tokens_U
    fitted = fit_pass_cost(passes_U=passes_U, tokens_U=tokens_U, seconds_U=seconds_U)
    assert fitted.seconds(passes=100, tokens=5000) == pytest.approx(
        cost.seconds(passes=100, tokens=5000), rel=1e-6
    )


def test_a_cost_below_zero_is_never_fitted() -> None:
    fitted = fit_pass_cost(passes_U=[1, 2, 3], tokens_U=[30, 20, 10], seconds_U=[1, 2, 3])
    assert fitted.base_s > 0 and fitted.token_s >= 0


def test_one_measurement_is_not_enough() -> None:
    with pytest.raises(ConfigError, match="at least two"):
        fit_pass_cost(passes_U=[1], tokens_U=[1], seconds_U=[1.0])


def test_a_new_prompt_is_short_and_moves_up_as_it_grows() -> None:
    known = classes()
    seen = [known.class_of("p", emitted=n) for n in range(60)]
    assert seen[0] == LengthClass.SHORT and known.draft_length("p", emitted=0) == 0
    assert seen == sorted(seen, key=list(LengthClass).index)
    assert [seen.count(c) for c in LengthClass] == [10, 30, 20]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=20))
def test_history_sets_the_class_to_start_in(lengths: list[int]) -> None:
    known = classes()
    for length in lengths:
        known.observe("p", length=length)
    assert min(lengths) - 1e-9 <= known.means["p"] <= max(lengths) + 1e-9
    if min(lengths) >= 40:
        assert known.draft_length("p", emitted=0) == 8
    assert known.draft_length("other", emitted=0) == 0
