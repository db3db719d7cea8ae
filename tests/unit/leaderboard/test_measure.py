"""What runs scored and spent is what their results say, figure by figure."""

from dataclasses import replace
from math import inf, isnan, nan

import pytest

from gfcr.leaderboard.measure import (
    SharedBudget,
    answers_of,
    asked_of,
    budget_of,
    cost_of,
    declared_bounds,
    heldout,
    mean_of,
    notes_of,
    provenance_of,
    result_of,
    scores_of,
    section_of,
    shared_prompts,
    unscorable,
)
from gfcr.leaderboard.targets import pareto, to_target
from gfcr.stats import UNBOUNDED
from tests.cases import over
from tests.records import held, record

BEFORE = {"accuracy": 0.25, "per_prompt": {"p": 0.5, "r": 0.0}, "unscorable": {"q": 4}}
AFTER = {"accuracy": 0.75, "per_prompt": {"p": 1.0, "q": 0.5}, "unscorable": {"q": 1, "s": 2}}
RUN = held(before=BEFORE, after=AFTER, asked={"prompts": 3, "samples": 4})
NOTHING = record()


def test_a_result_is_read_by_evaluation_and_is_empty_where_it_says_nothing():
    assert heldout(RUN) is heldout(RUN, "after") is AFTER and heldout(RUN, "before") is BEFORE
    assert section_of(RUN, "per_prompt") is AFTER["per_prompt"]
    assert section_of(RUN, "unscorable", when="before") is BEFORE["unscorable"]
    assert (unscorable(RUN), unscorable(RUN, when="before")) == (3, 4)
    assert asked_of(RUN) == {"prompts": 3, "samples": 4} and answers_of(RUN) == 12
    for found in (result_of(NOTHING), heldout(NOTHING), asked_of(NOTHING)):
        assert found == {}
    assert unscorable(NOTHING) == answers_of(NOTHING) == 0
    assert answers_of(held(asked={"prompts": 3})) == 3


def test_prompts_are_shared_when_all_were_asked_scored_or_not():
    other = held(after={"per_prompt": {"s": 1.0}, "unscorable": {"q": 1}})
    assert shared_prompts([RUN]) == ["p", "q", "s"]
    assert shared_prompts([RUN], when="before") == ["p", "q", "r"]
    assert shared_prompts([RUN, other]) == ["q", "s"]
    assert shared_prompts([]) == []


def test_what_nobody_could_score_counts_as_told_by_its_share_of_a_prompt_s_answers():
    prompts = ["p", "q", "s", "unknown"]
    assert scores_of([RUN], prompts=prompts, unscored=0) == [[1.0, 0.375, 0.0, 0.0]]
    assert scores_of([RUN], prompts=prompts, unscored=0.5) == [[1.0, 0.5, 0.25, 0.0]]
    assert scores_of([RUN], prompts=["p", "q"], unscored=2, when="before") == [[0.5, 2.0]]
    one = held(after={"per_prompt": {"p": 0.5}, "unscorable": {"q": 1}})
    assert scores_of([one, RUN], prompts=["q"], unscored=1) == [[1.0], [0.625]]


def test_where_prompts_are_not_shared_it_counts_in_the_run_s_mean():
    assert scores_of([RUN], prompts=[], unscored=0) == [[0.75 * 0.75]]
    assert scores_of([RUN], prompts=[], unscored=1.0) == [[0.75 * 0.75 + 0.25]]
    assert scores_of([RUN], prompts=[], unscored=1.0, when="before") == [[0.25 * 2 / 3 + 1 / 3]]
    unsaid = held(after={"accuracy": 0.5, "unscorable": {"q": 1}})
    assert scores_of([unsaid], prompts=[], unscored=3.0) == [[3.0]]
    assert scores_of([held(after={"accuracy": 0.5})], prompts=[], unscored=3.0) == [[0.5]]


@over(
    ("ranges", "bounds"),
    [
        ([[0, 1]], (0, 1)),
        ([[-1, 2], [-1, 2]], (-1, 2)),
        ([[0, 1], [0, 2]], None),
        ([[0, 1], None], None),
        ([None, [0, 1]], None),
        ([None], None),
        ([[None, 1]], (-inf, 1)),
        ([[0, None]], (0, inf)),
        ([[None, None]], UNBOUNDED),
    ],
)
def test_rewards_have_the_bounds_that_all_runs_declare(ranges, bounds):
    assert declared_bounds([held(reward_range=one) for one in ranges]) == bounds


def test_part_of_the_runs_is_not_averaged():
    assert mean_of([0, 2]) == 1 and mean_of(iter([0.5])) == 0.5
    for values in ([], [1.0, None], [1.0, nan], [inf], ["1"], [1.0, "1"]):
        assert isnan(mean_of(values))


def spending(tokens, **more):
    return held(tokens=tokens, **more)


def test_costs_are_means_over_runs_of_what_their_ledgers_and_meters_say():
    rates = {"wall_s": 10.0, "verifier_calls": 4, "rollout_tokens_per_s": 100.0, "r_gen": 0.5}
    rates["forward_passes"] = 3.0
    one = {"generated": 100, "trained": 40, "replayed": 10, "evaluation": 20, "remainder": 30}
    two = {"generated": 60, "rejected:x": 50, "remainder": 10}
    found = cost_of(
        [
            spending(one, **rates),
            spending(two, **{k: 3 * v for k, v in rates.items()}),
        ]
    )
    assert (found.generated_tokens, found.rollout_tokens, found.trained_tokens) == (80, 70, 25)
    assert found.wasted_share == pytest.approx(1 - 25 / 70)
    assert found.ledger == {"trained": 20, "replayed": 5, "evaluation": 10, "rejected:x": 25}
    assert list(found.ledger) == sorted(found.ledger) and found.forward_passes == 6.0
    told = (found.wall_s, found.verifier_calls, found.rollout_tokens_per_s, found.r_gen)
    assert told == (20.0, 8, 200.0, 1.0)


def test_what_a_run_does_not_say_it_spent_is_not_known():
    found = cost_of([spending({"trained": 0})])
    costs = (found.generated_tokens, found.rollout_tokens, found.wasted_share, found.wall_s)
    assert all(map(isnan, (*costs, found.forward_passes))) and found.trained_tokens == 0
    assert isnan(cost_of([spending({"generated": 20, "evaluation": 20})]).wasted_share)


def test_where_runs_come_from_is_told_with_all_that_differs():
    tags = {
        **{"gfcr.task": "t", "gfcr.model": "m", "gfcr.spec_hash": "s", "gfcr.commit": "c"},
        **{"gfcr.version.vllm": "1", "gfcr.code": "k", "gfcr.digest.heldout": "d", "other": "o"},
    }
    runs = [record(tags=tags), record(tags={**tags, "gfcr.code": "b | a", "gfcr.code.mine": "x"})]
    assert provenance_of(runs) == {
        **{"task": "t", "model": "m", "spec_hash": "s", "commit": "c", "version.vllm": "1"},
        **{"code": "a | b | k", "code.mine": "x", "digest.heldout": "d"},
    }
    assert provenance_of([NOTHING]) == {}


def noted(*, seed=0, cut=0, remainder=None, disagreed=None, lost=0, **more):
    left = {} if remainder is None else {"remainder": remainder}
    start = {} if disagreed is None else {"disagreed": disagreed, "n": 10}
    after = {"unscorable": {"p": lost}, **({"cut": cut} if cut else {})}
    names = ("wall_s", "forward_passes", "verifier_calls", "rollout_tokens_per_s", "r_gen")
    rates = dict.fromkeys(names, 1.0)
    return replace(
        held(
            **{"seed": seed, "before": start, "after": after, "tokens": left},
            asked={"prompts": 10, "samples": 1},
            **{name: value for name, value in {**rates, **more}.items() if value is not None},
        ),
        tags={"gfcr.commit": "c"},
    )


def test_what_a_reader_must_know_is_noted_once_and_nothing_else_is():
    assert notes_of([noted(), noted(cut=1)]) == []
    assert notes_of([noted(r_gen=None), noted(seed=1, r_gen=nan)]) == []
    odd = noted(seed=1, r_gen=nan, remainder=-2, disagreed=3, lost=2, cut=3)
    last = replace(noted(seed=2, r_gen=None, disagreed=0), tags={"gfcr.commit": "d"})
    assert notes_of([noted(), odd, last]) == [
        "r_gen is not averaged: seed 1, 2 did not record it",
        "2 generated tokens are in no bin of the ledger",
        "2 of 30 held-out answers could not be scored: they count as the lowest reward in its "
        "rank, and against whoever a verdict would favour",
        "the verifier gave 3 of 20 held-out answers another reward when they were asked again: "
        "it is no function of prompt and text",
        "10% of held-out answers met evaluation.sampling.max_tokens",
        "seeds differ in commit, or it changed in the course of one",
    ]
    assert notes_of([noted(remainder=1), noted(remainder=-1)]) == [
        "2 generated tokens are in no bin of the ledger"
    ]
    (told,) = notes_of([noted(), noted(seed=1, wall_s=None)])
    assert told == "wall_s is not averaged: seed 1 did not record it"


def ran(updates, tokens, seconds, *, by=None, calls=None, bound="7"):
    """A run that made this of its budget; `by` is the bound that ended it."""
    more = {"verifier_calls": calls, "stopped_by": by}
    made = held(updates=updates, tokens={"generated": tokens}, wall_s=seconds, **more)
    return replace(made, params={f"budget.{by}": bound})


def budget(ours, theirs):
    return budget_of([ours], baseline=[theirs])


EQUAL = SharedBudget(unequal=(), told=())


@over(
    ("ours", "theirs", "told"),
    [
        (ran(40, 1000, 60), ran(40, 1000, 600), ""),
        (ran(38, 1000, 60), ran(40, 1000, 60), ""),
        (ran(40, 950, 60), ran(40, 1000, 60), ""),
        (ran(40, 900, 60), ran(40, 1000, 60), "updates; arm for baseline: 900 for 1,000 tokens"),
        (ran(80, 1000, 60), ran(40, 1000, 60), "tokens; arm for baseline: 80 for 40 updates"),
        (ran(40, nan, 60), ran(40, 1000, 60), "updates; arm for baseline: nan for 1,000 tokens"),
    ],
)
def test_without_bounds_a_budget_is_of_updates_or_of_tokens(ours, theirs, told):
    notes = (f"equal budget in {told}",) if told else ()
    assert budget(ours, theirs) == SharedBudget(unequal=(), told=notes)


def test_seconds_of_other_cores_are_told() -> None:
    one, two = (replace(ran(40, 1000, 60), tags={"gfcr.cores": n}) for n in ("1", "2"))
    told = "seconds are of other cores than the baseline's: 1 for 2"
    assert budget_of([one], baseline=[two]).told == (told,)
    assert not budget_of([one], baseline=[one]).told


def test_seconds_of_lent_cores_are_left_out() -> None:
    own = ran(40, 1000, 60)
    result = {**result_of(own), "curve": [[0, 0, 1.0, 0.2], [40, 1000, 60.0, 0.9]], "r_gen": 0.5}
    run = replace(own, result=result, tags={"gfcr.cores": "2"})
    lent = replace(run, tags={"gfcr.cores": "2 | lent"})
    assert cost_of([run]).wall_s == 60 and isnan(cost_of([run, lent]).wall_s)
    assert isnan(cost_of([lent]).r_gen) and cost_of([lent]).rollout_tokens == 1000
    reached = to_target([lent], target=0.8, least=0.0)
    assert (reached.updates, reached.tokens) == (40, 1000) and isnan(reached.seconds)
    assert to_target([run], target=0.8, least=0.0).seconds == 60
    assert pareto({"a": (0.9, 10.0, nan), "b": (0.5, 20.0, 5.0)})["b"].seconds
    assert "seconds are left out: trials shared cores, sub-stage by sub-stage" in notes_of([lent])
    told = budget_of([lent], baseline=[run])
    assert not told.unequal and all("nan" not in note for note in told.told)


def test_equal_seconds_alone_are_no_budget_and_all_is_told():
    why = "unequal budgets, arm for baseline: 80 for 40 updates, 2,000 for 1,000 tokens, "
    assert budget(ran(80, 2000, 60), ran(40, 1000, 60)) == SharedBudget(
        unequal=(f"{why}60 for 60 seconds",), told=()
    )


@over(
    ("ours", "theirs", "told"),
    [
        ({"by": "seconds"}, {"by": "seconds"}, "seconds; arm for baseline: 500 for 1,000 tokens"),
        (
            {"by": "verifier_calls", "calls": 120},
            {"by": "verifier_calls", "calls": 100},
            "verifier calls; arm for baseline: 500 for 1,000 tokens, 120 for 100 verifier calls",
        ),
    ],
)
def test_what_one_bound_ended_may_differ_by_the_last_update(ours, theirs, told):
    found = budget(ran(2, 500, 60, **ours), ran(3, 1000, 60, **theirs))
    assert found == SharedBudget(unequal=(), told=(f"ended by one bound, on {told}",))


def test_the_last_update_is_a_fifth_of_the_larger_at_most():
    def tokens(ours, theirs):
        by = {"by": "generated_tokens"}
        return budget(ran(2, ours, 60, **by), ran(3, theirs, 60, **by))

    assert tokens(1000, 960) == EQUAL
    assert tokens(1000, 800).told == (
        "ended by one bound, on tokens; arm for baseline: 1,000 for 800 tokens",
    )
    assert tokens(1000, 799).unequal and tokens(799, 1000).unequal


def test_two_bounds_or_one_of_two_sizes_have_to_be_met_alike():
    one, other = ran(3, 1000, 60, by="seconds"), ran(3, 1000, 60, by="generated_tokens")
    assert budget(one, other) == EQUAL
    assert budget(ran(3, 900, 60, by="seconds"), other).unequal
    assert budget(ran(3, 1000, 50, by="seconds"), other).unequal
    larger = ran(3, 1000, 60, by="seconds", bound="8")
    assert budget(one, larger) == EQUAL
    assert budget(one, replace(larger, result={**larger.result, "wall_s": 66})).unequal
    ended = budget(ran(80, 500, 60, by="seconds"), ran(40, 1000, 61))
    assert ended.told == (
        "equal budget in seconds; arm for baseline: 80 for 40 updates, 500 for 1,000 tokens",
    )
    mixed = [ran(n, 1000, 60, by=b, calls=9) for n, b in ((80, "seconds"), (40, "verifier_calls"))]
    assert budget(*mixed).told == (
        "equal budget in seconds and verifier calls; arm for baseline: 80 for 40 updates",
    )
    last = ran(40, 1000, 60, by="generated_tokens")
    assert budget(last, ran(40, 800, 60)).unequal
    last = replace(last, params={**last.params, "trainer.max_steps": "40"})
    assert not budget(last, ran(40, 800, 60)).unequal, "it would have ended there anyway"
    calls = ran(40, 1000, 60, by="verifier_calls", calls=100)
    assert budget(calls, ran(40, 1000, 60, calls=50)).unequal == (
        "unequal budgets, arm for baseline: 40 for 40 updates, 1,000 for 1,000 tokens, 60 for 60 "
        "seconds, 100 for 50 verifier calls",
    )
