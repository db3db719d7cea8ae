"""Draft lengths: classes, the optimum, and what both learn from."""

import json

import numpy as np
import pytest

from gfcr.speculation.base import Row, Step
from gfcr.speculation.cost import PassCost
from gfcr.speculation.limits import FEWEST, PROBE, Acceptance, Ask, Limits, Mode
from gfcr.types import Sampling
from tests.cases import over

MOST = 8
LENGTHS = {"short": [10] * 5, "medium": [30] * 3, "long": [100] * 2}
"""Half of the rollouts are short, a fifth is long."""


def ask(key: str, *, emitted: int = 0, begun: int = 0, limit: int = MOST, name: str = "") -> Ask:
    row = Row(
        request_id=name or key,
        prompt_id=key,
        slot="",
        sampling=Sampling(),
        tokens_T=np.zeros(3 + emitted, np.int32),
        prompt_length=3 + begun,
        begun=begun,
        limit=limit,
    )
    return Ask(row=row, key=key, warm=True)


def limits(mode: Mode) -> Limits:
    made = Limits(mode, most=MOST)
    made.learn(LENGTHS)
    return made


def accepting(rate: float, *, num: int = 4000, most: int = MOST) -> Acceptance:
    """Full drafts of which each next token is accepted with probability `rate`."""
    made, rng = Acceptance(most=most), np.random.default_rng(0)
    for run in np.minimum(rng.geometric(1 - rate, num) - 1, most):
        made.see(allowed=most, drafted=most, accepted=int(run))
    return made


def step(*, running: int, drafted: int, seconds: float, prompt_tokens: int = 0) -> Step:
    return Step(
        running=running,
        prompt_tokens=prompt_tokens,
        emitted=running,
        drafts=running,
        drafted=drafted,
        accepted=0,
        seconds=seconds,
    )


def test_without_a_budget_everyone_drafts_what_fits() -> None:
    asks = [ask("short"), ask("long", limit=3)]
    assert limits("none").lengths(asks) == [MOST, 3]


def test_classes_draft_for_the_longest_and_not_for_the_short() -> None:
    asks = [ask("short"), ask("medium"), ask("long"), ask("new")]
    assert limits("classes").lengths(asks) == [0, MOST // 4, MOST, 0]


def test_a_request_moves_up_as_it_outgrows_its_class() -> None:
    made = limits("classes")
    drafts = [made.lengths([ask("short", emitted=e), ask("long")])[0] for e in range(120)]
    went_on = [ask("short", emitted=e, begun=e // 2) for e in range(120)]
    assert drafts == [made.lengths([each, ask("long")])[0] for each in went_on]
    assert set(drafts) == {0, MOST // 4, MOST} and drafts == sorted(drafts)


@over("key", ["short", "medium", "long"])
def test_whoever_runs_longest_drafts_in_full(key: str) -> None:
    assert limits("classes").lengths([ask(key), ask("short", name="s")])[0] == MOST


def test_nothing_is_drafted_by_class_before_any_length_is_known() -> None:
    assert Limits("classes", most=MOST).lengths([ask("a"), ask("b")]) == [0, 0]


def optimal(cost: PassCost, *, rate: float = 0.7) -> Limits:
    made = limits("optimal")
    made.cost = cost
    made.acceptance = (accepting(rate), accepting(rate))
    return made


def test_the_optimum_drafts_for_the_longest_only_while_tokens_cost_something() -> None:
    made = optimal(PassCost(base_s=1.0, token_s=0.02))
    short, _, long = made.lengths([ask("short"), ask("medium"), ask("long")])
    assert short == 0 < long


def test_the_optimum_is_all_or_nothing_at_the_ends() -> None:
    asks = [ask("long"), ask("long", name="other")]
    free = PassCost(base_s=1.0, token_s=0.0)
    assert optimal(free).lengths(asks) == [MOST, MOST]
    dear = PassCost(base_s=1e-6, token_s=1.0)
    assert optimal(dear, rate=0.05).lengths(asks) == [0, 0]


def test_dearer_tokens_never_lengthen_drafts() -> None:
    asks = [ask("short"), ask("medium"), ask("long")]
    costs = [PassCost(base_s=1.0, token_s=t) for t in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)]
    totals = [sum(optimal(cost).lengths(asks)) for cost in costs]
    assert totals == sorted(totals, reverse=True) and totals[0] > totals[-1]


def test_a_plan_of_nothing_is_tried_now_and_then() -> None:
    made = optimal(PassCost(base_s=1e-6, token_s=1.0), rate=0.05)
    drafts = [made.lengths([ask("long")])[0] for _ in range(10 * PROBE)]
    assert drafts.count(MOST) == 10 and drafts.count(0) == len(drafts) - 10


@over("rate", [0.2, 0.5, 0.8, 0.95])
def test_acceptance_by_draft_length_is_the_geometric_sum(rate: float) -> None:
    drafted_B, accepted_B = accepting(rate).per_pass()
    assert drafted_B.tolist() == list(range(1, MOST + 1))
    expected_B = np.cumsum(rate ** np.arange(1, MOST + 1))
    np.testing.assert_allclose(accepted_B, expected_B, rtol=0.1, atol=0.02)


@over("rate", [0.2, 0.5, 0.8])
def test_the_saturation_fit_foretells_passes(rate: float) -> None:
    acceptance = accepting(rate)
    share, alpha = acceptance.saturation()
    drafted_B, accepted_B = acceptance.per_pass()
    passes_B = 1 / (1 + accepted_B)
    foretold_B = 1 - share * (1 - np.exp(-alpha * drafted_B * passes_B))
    np.testing.assert_allclose(foretold_B, passes_B, atol=0.06)


def test_positions_that_were_not_allowed_say_nothing() -> None:
    acceptance = Acceptance(most=4)
    for _ in range(100):
        acceptance.see(allowed=2, drafted=2, accepted=2)
    drafted_B, accepted_B = acceptance.per_pass()
    assert drafted_B.tolist() == accepted_B.tolist() == [1, 2, 2, 2]


def test_the_cost_of_a_pass_is_fitted_to_pure_decoding_steps() -> None:
    made = Limits("optimal", most=MOST)
    for i in range(FEWEST):
        made.saw(step(running=i, drafted=2 * i, seconds=0.01 + 0.001 * 3 * i))
        made.saw(step(running=1, drafted=0, seconds=0.05, prompt_tokens=9))
    assert made.cost is not None
    assert (made.cost.base_s, made.cost.token_s) == pytest.approx((0.01, 0.001))


def test_an_interrupted_step_does_not_spoil_the_fit() -> None:
    made = Limits("optimal", most=MOST)
    made.saw(step(running=1, drafted=0, seconds=9.0))
    for i in range(FEWEST):
        made.saw(step(running=i, drafted=i, seconds=0.01 + 0.001 * 2 * i))
    assert made.cost is not None and made.cost.base_s == pytest.approx(0.01)


def test_what_was_learned_survives_json() -> None:
    made = optimal(PassCost(base_s=1.0, token_s=0.02))
    again = Limits("optimal", most=MOST)
    again.load_state_dict(json.loads(json.dumps(made.state_dict())))
    assert again.state_dict() == made.state_dict()
    asks = [ask("short"), ask("medium"), ask("long")]
    assert again.lengths(asks) == made.lengths(asks)
