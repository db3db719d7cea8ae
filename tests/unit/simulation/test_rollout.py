"""Laws of the simulated generation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulation import acceptance
from benchmarks.simulation.acceptance import Acceptance
from benchmarks.simulation.arms import Workload, simulate
from benchmarks.simulation.drafting import Drafting, Switch, budgeted, fixed, saturation_of
from benchmarks.simulation.lengths import Lognormal, Recorded
from benchmarks.simulation.rollout import Generation, generate
from gfcr.errors import ConfigError
from gfcr.speculation.cost import PassCost
from tests.cases import over

COST = PassCost(base_s=1.0, token_s=0.01)
LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=20)


def generation(
    lengths: list[int],
    *,
    draft: int | Drafting = 0,
    accept: float = 0.8,
    max_running: int = 8,
    cost: PassCost = COST,
) -> Generation:
    lengths_N = np.array(lengths)
    return generate(
        lengths_N,
        drafting=fixed(draft, requests=len(lengths)) if isinstance(draft, int) else draft,
        acceptance=acceptance.constant(accept, longest=8),
        cost=cost,
        max_running=max_running,
        rng=np.random.default_rng(0),
    )


def workload(**changes: object) -> Workload:
    values: dict[str, object] = {
        "lengths": Lognormal(median=40, tail=5, cap=400),
        "requests": 32,
        "max_running": 32,
        "cost": PassCost(base_s=0.01, token_s=1e-5),
        "acceptance": acceptance.constant(0.8, longest=7),
        "learn_s": 1.0,
        "prepare_s": 0.1,
        "updates": 3,
    }
    return Workload(**{**values, **changes})  # type: ignore[arg-type]


@given(LENGTHS, st.integers(0, 8), st.floats(0, 1), st.integers(1, 30))
def test_every_token_is_emitted_once(
    lengths: list[int], draft: int, accept: float, max_running: int
) -> None:
    made = generation(lengths, draft=draft, accept=accept, max_running=max_running)
    assert made.emitted == sum(lengths)
    assert made.accepted <= made.drafted <= draft * made.verifications
    assert made.makespan_s == pytest.approx(
        COST.seconds(passes=made.forward_passes, tokens=made.verified)
    )


@given(LENGTHS, st.floats(0, 1))
def test_without_drafts_a_batch_that_fits_takes_its_longest_response(
    lengths: list[int], accept: float
) -> None:
    made = generation(lengths, draft=0, accept=accept, max_running=20)
    assert made.forward_passes == max(lengths)
    assert made.verified == sum(lengths) and made.emitted == made.verifications


@given(LENGTHS, st.integers(0, 8))
def test_perfect_drafts_divide_the_passes(lengths: list[int], draft: int) -> None:
    made = generation(lengths, draft=draft, accept=1.0, max_running=20)
    assert made.forward_passes == math.ceil(max(lengths) / (draft + 1))


@given(LENGTHS, st.integers(0, 8))
def test_hopeless_drafts_cost_tokens_and_save_no_pass(lengths: list[int], draft: int) -> None:
    plain, made = generation(lengths), generation(lengths, draft=draft, accept=0.0)
    assert made.forward_passes == plain.forward_passes
    assert made.makespan_s >= plain.makespan_s


@given(LENGTHS, st.data(), st.sampled_from([(0, 0.5), (4, 1.0), (4, 0.0)]))
def test_a_longer_response_never_shortens_the_batch(
    lengths: list[int], data: st.DataObject, how: tuple[int, float]
) -> None:
    longer = list(lengths)
    longer[data.draw(st.integers(0, len(lengths) - 1))] += data.draw(st.integers(1, 30))
    before, after = (
        generation(batch, draft=how[0], accept=how[1], max_running=4) for batch in (lengths, longer)
    )
    assert after.makespan_s >= before.makespan_s - 1e-9


def test_emitted_a_verification_is_the_acceptance_length() -> None:
    made = generation([4000] * 8, draft=3)
    expected = acceptance.constant(0.8, longest=3).length(3)
    assert made.emitted / made.verifications == pytest.approx(expected, rel=0.02)
    # One request's speed-up is alpha over the cost of its pass, which is formula 2.4's R_gen = 1.
    plain = generation([4000] * 8)
    cost = (COST.base_s + COST.token_s * 8 * 4) / (COST.base_s + COST.token_s * 8)
    assert plain.makespan_s / made.makespan_s == pytest.approx(expected / cost, rel=0.03)


@over("token_s", [0.0, 0.01, 0.05, 1.0])
def test_the_switch_is_as_good_as_the_best_fixed_draft(token_s: float) -> None:
    cost = PassCost(base_s=1.0, token_s=token_s)
    lengths = Lognormal(median=50, tail=5, cap=500).draw(32, rng=np.random.default_rng(1))
    accept = acceptance.constant(0.8, longest=8)
    switch = Switch(accept, cost=cost, max_running=32, longest=8)
    chosen = generation(list(lengths), draft=switch, max_running=32, cost=cost).makespan_s
    each = [
        generation(list(lengths), draft=k, max_running=32, cost=cost).makespan_s for k in range(9)
    ]
    # 5 %: acceptance is drawn, and the switch looks one pass ahead only.
    assert chosen <= min(each) * 1.05


def test_the_budget_drafts_more_for_longer_responses_and_beats_one_length_for_all() -> None:
    cost = PassCost(base_s=1.0, token_s=0.02)
    lengths = Lognormal(median=50, tail=5, cap=500).draw(64, rng=np.random.default_rng(2))
    accept = acceptance.constant(0.8, longest=8)
    budget = budgeted(lengths, acceptance=accept, cost=cost, longest=8)
    by_length = budget.draft_N[np.argsort(lengths)]
    assert (np.diff(by_length) >= 0).all() and by_length[0] == 0 < by_length[-1]
    made = generation(list(lengths), draft=budget, max_running=64, cost=cost).makespan_s
    each = [
        generation(list(lengths), draft=k, max_running=64, cost=cost).makespan_s for k in range(9)
    ]
    assert made <= min(each)


@given(st.floats(0.01, 0.99), st.integers(1, 8))
def test_the_saturation_curve_goes_through_the_longest_draft(accept: float, draft: int) -> None:
    known = acceptance.constant(accept, longest=draft)
    share, rate = saturation_of(known, longest=draft)
    emitted = known.length(draft)
    assert 0 < share <= 1
    assert share * (1 - math.exp(-rate * draft / emitted)) == pytest.approx(
        1 - 1 / emitted, rel=1e-6, abs=1e-9
    )


@given(st.floats(0, 1), st.integers(1, 8), st.integers(0, 2**32))
def test_accepted_drafts_follow_the_shares_by_position(
    accept: float, draft: int, seed: int
) -> None:
    known = acceptance.constant(accept, longest=8)
    drawn = known.draw(np.full(4000, draft), rng=np.random.default_rng(seed))
    reached = [(drawn >= j).mean() for j in range(1, draft + 1)]
    # 4,000 draws: 0.045 is more than 5.5 standard errors.
    assert reached == pytest.approx([accept**j for j in range(1, draft + 1)], abs=0.045)
    assert drawn.max(initial=0) <= draft


@given(st.floats(1, 4), st.integers(3, 8))
def test_constant_acceptance_has_the_length_asked_for(length: float, draft: int) -> None:
    found = acceptance.constant_from_length(length, draft=draft, longest=draft)
    assert found.length(draft) == pytest.approx(length, rel=1e-6)


@over("shares", [(), (0.5, 0.6), (1.2,), (-0.1,), (float("nan"),), (0.5, float("nan"))])
def test_impossible_shares_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="acceptance"):
        Acceptance(shares)


def test_drafting_past_the_known_positions_is_refused() -> None:
    with pytest.raises(ConfigError, match="0 to 2 tokens, not 3"):
        Acceptance((0.5, 0.4)).length(3)


@given(st.floats(1, 500), st.floats(1, 20), st.integers(1, 2000), st.integers(0, 99))
def test_lengths_stay_within_the_cap(median: float, tail: float, cap: int, seed: int) -> None:
    drawn = Lognormal(median=median, tail=tail, cap=cap).draw(50, rng=np.random.default_rng(seed))
    assert drawn.min() >= 1 and drawn.max() <= cap


def test_lognormal_lengths_have_the_median_and_tail_asked_for() -> None:
    drawn = Lognormal(median=300, tail=4.6, cap=10**6).draw(200_000, rng=np.random.default_rng(0))
    assert np.median(drawn) == pytest.approx(300, rel=0.02)
    assert np.percentile(drawn, 99) / np.median(drawn) == pytest.approx(4.6, rel=0.05)


def test_arms_share_their_batches_and_the_plain_one_is_the_reference() -> None:
    arms = simulate(workload(), drafts=["0", "3", "switch", "classes", "budget"], lags=[0, 1])
    plain = arms[0]
    assert plain.generation_speedup == plain.step_speedup == 1
    assert {arm.emitted for arm in arms} == {plain.emitted}
    assert {arm.r_gen for arm in arms} == {plain.r_gen}
    for sync, late in zip(arms[::2], arms[1::2], strict=True):
        assert late.makespan_s == sync.makespan_s and late.step_s <= sync.step_s
        assert sync.exposed_s > 0 and late.exposed_s <= sync.exposed_s


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from(["1", "3", "7", "switch", "budget"]))
def test_no_arm_beats_its_bound(seed: int, draft: str) -> None:
    # Equal lengths, many: what one request is lucky with, another is not.
    same = Recorded(np.array([200]))
    for arm in simulate(workload(seed=seed, lengths=same), drafts=[draft], lags=[0, 1]):
        assert arm.step_speedup <= arm.bound * 1.02


def test_an_unknown_draft_names_what_there_is() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'switch'"):
        simulate(workload(), drafts=["swich"], lags=[0])
