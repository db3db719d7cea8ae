"""A record in which one figure contradicts another is found out, and told by both."""

import copy
from dataclasses import replace

import pytest

from gfcr.config import HELDOUT
from gfcr.leaderboard.integrity import contradiction
from gfcr.tracking.names import fit_param, flatten, spec_hash
from tests.cases import over
from tests.certified import certified
from tests.heldout import measured
from tests.records import sound

FINE = sound("a", 3)


def why(run):
    found = contradiction(run)
    assert found is None or found.startswith("the store contradicts itself: ")
    return found and found.removeprefix("the store contradicts itself: ")


def with_result(**changes):
    return replace(FINE, result={**FINE.result, **changes})


def edited(change, *, of=FINE):
    made = replace(of, result=copy.deepcopy(of.result))
    change(made.result)
    return made


def specified(spec, *, params=None, **more):
    tags = {**FINE.tags, "gfcr.spec_hash": spec_hash(spec)}
    given = flatten(spec) if params is None else params
    return replace(FINE, **{"spec": spec, "params": given, "tags": tags, **more})


def test_a_sound_record_contradicts_nothing():
    assert contradiction(FINE) is None
    whole = with_result(run_id="a-3", study="study", arm="a", seed=3, certificate="none")
    assert contradiction(whole) is None


@over(
    ("name", "own", "other"),
    [("run_id", "a-3", "x"), ("study", "study", "x"), ("arm", "a", "x"), ("seed", 3, 4)],
)
def test_result_and_spec_say_who_the_run_is(name, own, other):
    told = with_result(**{name: other})
    assert why(told) == f"the tag says {name} {own}, result.json says {other}"
    told = specified({"task": "t", name: other})
    assert why(told) == f"the tag says {name} {own}, spec.yaml says {other}"
    assert why(specified({"task": "t", name: own})) is None


def test_only_an_arm_s_name_has_the_study_s_before_it_in_a_table_of_several():
    both = replace(with_result(arm="a"), arm="study/a")
    assert why(both) is None
    assert why(replace(both, arm="other/a")) == "the tag says arm other/a, result.json says a"
    odd = replace(with_result(run_id="a-3"), run_id="study/a-3")
    assert why(odd) == "the tag says run_id study/a-3, result.json says a-3"


def test_no_certificate_is_claimed_that_the_run_has_not():
    tagged = replace(FINE, tags={**FINE.tags, "gfcr.certificate": "lossless"})
    end = "says certificate lossless, what certificate.json says is none"
    assert why(tagged) == f"its tag {end}"
    assert why(with_result(certificate="lossless")) == f"its result {end}"
    fast = certified(FINE, "lossless")
    assert why(fast) is None
    less = replace(fast, certificate=None)
    assert (
        why(less) == "its tag says certificate lossless, what certificate.json says is uncertified"
    )


LONG = "x" * 10_000
SPEC = {"trainer": {"lr": 0.5}, "note": LONG}


def test_a_spec_is_what_the_tag_and_the_parameters_say():
    other = spec_hash(SPEC)
    assert why(specified(SPEC)) is None
    cut = {name: fit_param(value) for name, value in flatten(SPEC).items()}
    assert cut["note"] != LONG and why(specified(SPEC, params=cut)) is None
    assert why(specified(SPEC, tags={})) == f"the tag says spec None, spec.yaml has {other}"
    for changes, told in (
        ({"trainer.lr": "0.1"}, "the parameter trainer.lr is 0.1, in spec.yaml it is 0.5"),
        ({"b": "1"}, "the parameter b is 1, in spec.yaml it is None"),
        ({"trainer.lr": None}, "the parameter trainer.lr is None, in spec.yaml it is 0.5"),
        ({"note": "y"}, f"the parameter note is y, in spec.yaml it is {fit_param(LONG)}"),
        ({"b": "1", "a": "2"}, "the parameter a is 2, in spec.yaml it is None"),
    ):
        params = {k: v for k, v in {**flatten(SPEC), **changes}.items() if v is not None}
        assert why(specified(SPEC, params=params)) == told


def test_the_score_is_the_one_at_the_end_of_its_curve_and_of_the_metric():
    curve = [[0, 0, 0.0, 0.25], [2, 5, 4.0, 0.5], [4, 10, 9.0, 0.75]]
    assert why(with_result(curve=curve)) == (
        "result.json has held-out score 0.5, and 0.75 on its curve"
    )
    assert why(with_result(curve=[])) is None
    logged = replace(FINE, series={HELDOUT: ((0, 0.5), (2, 0.5), (4, 0.75))})
    assert why(logged) == f"the metric {HELDOUT} ends at 0.75, result.json says 0.5"
    assert why(replace(FINE, series={HELDOUT: ((0, 0.25), (2, 0.75), (4, 0.5))})) is None
    longer = [[0, 0, 0.0, 0.25], [2, 5, 4.0, 0.75], [4, 10, 9.0, 0.5]]
    assert why(with_result(curve=longer)) is None
    resumed = replace(logged, result={**FINE.result, "resumed_from": 2})
    assert why(resumed) is None, "it measured again, and a store keeps the first point"


@over(
    ("score", "told", "same"),
    [
        (0.5, 0.5 * (1 + 5e-7), True),
        (0.5, 0.5 * (1 + 2e-6), False),
        (0.0, 5e-10, True),
        (0.0, 2e-9, False),
    ],
)
def test_figures_are_one_within_a_millionth_or_a_billionth(score, told, same):
    run = sound("a", 3, score=score)
    run.result["curve"][-1][3] = told
    assert (why(run) is None) == same


@pytest.mark.parametrize(("key", "given", "asked"), [("prompts", "3", 2), ("samples", "1", 2)])
def test_what_was_asked_is_what_the_settings_say(key, given, asked):
    odd = replace(FINE, params={f"evaluation.{key}": given})
    assert why(odd) == f"evaluation.{key} is {given}, and {asked} were asked by result.json"
    assert why(replace(FINE, params={f"evaluation.{key}": str(asked)})) is None


def lossy(*, lost, when="after"):
    """A run whose evaluations lost answers: `lost` at one time, none at the other."""
    run = sound("a", 3)
    held = run.result["heldout"]
    held[when] = measured({"p": 0.25, "q": 0.75}, unscorable=lost, samples=2)
    run.result["curve"][when == "after"][3] = held[when]["accuracy"]
    run.result["unscorable"] = [0, sum(lost.values()) if when == "after" else 0]
    return run


CHANGES = {
    "a score is gone": (lambda e: e["per_prompt"].pop("p"), 1, 4),
    "a lost answer is none": (lambda e: e["unscorable"].clear(), 2, 3),
    "a count is larger": (lambda e: e.update(n=4), 2, 4),
    "a count is gone": (lambda e: e.pop("n"), 2, None),
    "a prompt is added": (lambda e: e["unscorable"].update(r=2), 3, 3),
    "more are lost than asked": (lambda e: e["unscorable"].update(p=3, q=-1), 2, 3),
    "what is lost has a score": (lambda e: e["unscorable"].update(q=2), 2, 3),
    "what is left has none": (
        lambda e: (e["per_prompt"].pop("q"), e["unscorable"].update(q=1)),
        2,
        3,
    ),
}


@over("when", ["before", "after"])
@over("case", CHANGES)
def test_every_answer_that_was_asked_for_is_scored_or_counted(case, when):
    change, prompts, answers = CHANGES[case]
    run = lossy(lost={"q": 1} if case != "a score is gone" else {}, when=when)
    assert why(run) is None
    change(run.result["heldout"][when])
    if when == "after" and case.startswith("a lost"):
        run.result["unscorable"] = [0, 0]
    assert why(run) == (
        f"2 held-out prompts x 2 were asked, result.json has {prompts} prompts and {answers} "
        f"scored answers {when} training"
    )


def test_an_evaluation_of_which_nothing_could_be_scored_is_no_contradiction():
    for lost in ({"p": 2}, {"p": 2, "q": 2}):
        run = lossy(lost=lost)
        assert why(run) is None
        run = lossy(lost=lost, when="before")
        assert why(run) is None
        run.result["heldout"]["after"]["n"] = 5
        assert "5 scored answers after training" in why(run)
    nothing = edited(lambda r: r["heldout"]["asked"].update(prompts=0))
    for when in ("before", "after"):
        nothing.result["heldout"][when] = {**measured({}), "accuracy": 0.5}
    assert why(nothing) is None


@over("when", ["before", "after"])
def test_the_accuracy_is_the_mean_over_the_answers_that_have_a_score(when):
    run = lossy(lost={"q": 1}, when=when)
    assert run.result["heldout"][when]["accuracy"] == pytest.approx((2 * 0.25 + 0.75) / 3)
    run.result["heldout"][when]["per_prompt"]["q"] = 0.5
    told = f"held-out score is {1.25 / 3}, the mean over its prompts 0.333333"
    assert why(run) == told


def test_answers_without_a_score_are_counted_along_the_curve():
    run = lossy(lost={"q": 1})
    for counts, last in (([0, 0], 1), ([0, 2], 1), ([1], 1), ([0, 0, 1], 1), ([], 1)):
        run.result["unscorable"] = counts
        told = f"{counts} answers were unscorable on the curve, {last} at its end"
        assert why(run) == told
    run.result["curve"].insert(0, run.result["curve"][0])
    run.result["unscorable"] = [0, 2, 1]
    assert why(run) is None
    run.result["unscorable"] = [0, 1, 2]
    assert why(run) == "[0, 1, 2] answers were unscorable on the curve, 1 at its end"
    run.result["curve"].pop(0)
    del run.result["unscorable"]
    assert why(run) == "[0, 0] answers were unscorable on the curve, 1 at its end"
    del run.result["curve"]
    assert why(run) is None


def test_the_bins_of_the_ledger_hold_what_was_generated():
    tokens = {"generated": 10, "trained": 6, "masked": 4, "remainder": 1}
    assert why(with_result(tokens=tokens)) == (
        "10 tokens were generated, the ledger's bins hold 11"
    )
    assert why(with_result(tokens={**tokens, "remainder": 0})) is None
