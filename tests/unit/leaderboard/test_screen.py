"""Runs that may not be averaged are left out, each with the reason in full."""

from dataclasses import replace
from math import nan

from gfcr.leaderboard.screen import compares_of, screen
from tests.cases import over
from tests.records import sound


def out(*runs, baseline="a"):
    """Run id and reason of what is left out."""
    return [(e.run_id, e.reason) for e in screen(runs, baseline=baseline)[1]]


def kept(*runs, baseline="a"):
    arms, _ = screen(runs, baseline=baseline)
    return {arm: [run.run_id for run in held] for arm, held in arms.items()}


def tagged(run, **tags):
    return replace(run, tags={**run.tags, **{f"gfcr.{k}": v for k, v in tags.items()}})


def test_arms_are_sorted_and_so_are_their_seeds():
    runs = [sound(n, s) for n in "ba" for s in (2, 0, 1)]
    assert list(kept(*runs)) == ["a", "b"] and not out(*runs)
    assert kept(*runs) == {n: [f"{n}-{s}" for s in range(3)] for n in "ab"}
    assert screen([], baseline=None) == ({}, [])
    (left,) = screen([replace(sound("b", 7), status="running")], baseline=None)[1]
    assert (left.run_id, left.arm, left.seed) == ("b-7", "b", 7)


@over(
    ("changes", "reason"),
    [
        ({"damage": "it is cut"}, "the store is damaged: it is cut"),
        ({"status": "failed", "result": {"error": "boom"}}, "the run failed: boom"),
        ({"status": "failed", "result": None}, "the run failed: no reason is recorded"),
        ({"status": "stopped", "result": {"stopped": "slow"}}, "the run was stopped early: slow"),
        (
            {"status": "stopped", "result": None},
            "the run was stopped early: no reason is recorded",
        ),
        ({"status": "running"}, "the run has not finished, or was killed"),
        ({"result": None}, "held-out score is None"),
    ],
)
def test_a_run_that_came_to_no_score_says_why(changes, reason):
    odd = replace(sound("a", 1), **changes)
    assert out(sound(), odd) == [("a-1", reason)] and kept(sound(), odd) == {"a": ["a-0"]}


def emptied(path, value=None):
    """A run whose result has another value at the path, or none."""
    run = sound("a", 1)
    *places, last = path.split("/")
    held = run.result
    for place in places:
        held = held[place]
    held.pop(last)
    if value is not None:
        held[last] = value
    return run


def test_runs_that_shared_cores_have_no_seconds_and_are_kept():
    runs = [tagged(sound("a", seed), cores="lent") for seed in range(2)]
    assert kept(*runs) == {"a": ["a-0", "a-1"]} and not out(*runs)


@over("value", [None, nan])
def test_a_run_without_a_score_says_so(value):
    odd = emptied("heldout/after/accuracy", value)
    assert out(sound(), odd) == [("a-1", f"held-out score is {value}")]


def test_the_table_is_about_the_question_of_its_baseline_or_else_the_most_common():
    runs = [sound("a", 0), *(tagged(sound("b", s), task="u") for s in range(2))]
    told = "task {}, model m, where this table is about task {}, model m"
    assert out(*runs) == [("b-0", told.format("u", "t")), ("b-1", told.format("u", "t"))]
    for baseline in (None, "z"):
        assert out(*runs, baseline=baseline) == [("a-0", told.format("t", "u"))]
    assert out(*runs[:2], baseline=None) == [("b-0", told.format("u", "t"))], "the first by name"
    bare = replace(sound("b"), tags={})
    assert out(sound(), bare) == [
        ("b-0", "task ?, model ?, where this table is about task t, model m")
    ]


@over("name", ["task.size", "evaluation.sampling.top_k", "engine.dtype"])
def test_settings_that_decide_what_a_score_measures_have_to_be_one(name):
    one, other = (replace(sound(n), params={name: v}) for n, v in (("a", "1"), ("b", "2")))
    told = f"task t, model m, {name} {{}}, where this table is about task t, model m, {name} {{}}"
    assert out(one, other) == [("b-0", told.format("2", "1"))]
    assert out(one, sound("b")) == [("b-0", told.format("None", "1"))]
    assert not out(one, replace(one, arm="b"))
    trained = (replace(sound(n), params={"trainer.lr": v}) for n, v in (("a", "1"), ("b", "2")))
    assert not out(*trained)


@over(
    ("digest", "told"),
    [
        ("model", "model.files"),
        ("training", "training prompts"),
        ("heldout", "held-out prompts at any time"),
        ("asking", "code that asks and scores"),
    ],
)
def test_what_a_spec_only_names_goes_by_its_digest(digest, told):
    one, other = (tagged(sound(n), **{f"digest.{digest}": n * 3}) for n in "ab")
    what = f"task t, model m, {told} "
    assert out(one, other) == [("b-0", f"{what}bbb, where this table is about {what}aaa")]
    assert out(one, sound("b")) == [("b-0", f"{what}?, where this table is about {what}aaa")]


@over(
    ("key", "value", "told"),
    [("prompts", 3, "d1ge57 (3 x 2 answers)"), ("samples", 1, "d1ge57 (2 x 1 answers)")],
)
def test_as_many_prompts_are_asked_as_often(key, value, told):
    other = sound("b")
    other.result["heldout"]["asked"][key] = value
    ((name, reason),) = out(sound(), other)
    assert name == "b-0" and f"held-out prompts {told}, where this table is about" in reason


def test_what_was_asked_goes_by_a_digest_of_the_prompts_and_their_number():
    other = sound("b")
    asked = other.result["heldout"]["asked"]
    asked["digest"] = "0123456789abcdef"
    what = "task t, model m, held-out prompts"
    told = f"{what} 0123456789ab (2 x 2 answers), where this table is about {what} d1ge57 (2 x 2 "
    assert out(sound(), other) == [("b-0", f"{told}answers)")]
    compared = [tagged(run, compares="held-out") for run in (sound(), other)]
    assert len(out(*compared)) == 1, "the question is none that a study may compare"


def test_what_the_study_compares_may_differ():
    one, other = (
        replace(tagged(sound(n), model=n, compares="engine model"), params={"engine.dtype": n})
        for n in "ab"
    )
    assert not out(one, other)
    assert len(out(tagged(one, compares="engine"), other)) == 1
    assert not out(one, tagged(other, compares="")), "the word is the baseline's"
    less = tagged(one, compares="model")
    told = "task t, engine.dtype {}"
    assert out(less, other) == [
        ("b-0", f"{told.format('b')}, where this table is about {told.format('a')}")
    ]


def test_the_word_on_what_is_compared_is_the_baseline_s_or_else_all_the_runs():
    runs = [tagged(sound("a"), compares="model engine"), tagged(sound("b"), compares="model task")]
    assert compares_of(runs, baseline="a") == ["engine", "model"]
    assert compares_of(runs, baseline="b") == ["model", "task"]
    assert compares_of(runs, baseline=None) == compares_of(runs, baseline="z") == ["model"]
    assert compares_of([sound()], baseline="a") == compares_of([], baseline="a") == []


def test_within_an_arm_the_most_common_spec_stands_or_the_first_by_name():
    runs = [sound("a", s) for s in range(3)]
    odd = tagged(runs[0], spec_hash="new")
    reason = "spec {}, where the arm's other seeds have {}"
    assert out(odd, *runs[1:]) == [("a-0", reason.format("new", "of-a"))]
    assert out(odd, runs[1]) == [("a-1", reason.format("of-a", "new"))]
    bare = replace(runs[0], tags={"gfcr.task": "t", "gfcr.model": "m"})
    assert out(bare, *runs[1:]) == [("a-0", reason.format("?", "of-a"))]
    assert not out(sound("a"), tagged(sound("b"), spec_hash="new"))


def test_within_an_arm_all_make_as_many_updates_unless_a_budget_ends_them():
    runs = [*(sound("a", s) for s in range(2)), sound("a", 2, updates=3)]
    reason = "3 updates, where the arm's other seeds made 4 updates"
    assert out(*runs, sound("b", updates=7)) == [("a-2", reason)]
    assert not out(*runs[:2], sound("a", 2, updates=3, stopped_by="seconds"))
    beside = sound("b", 0, stopped_by="seconds")
    assert out(*runs, beside) == [("a-2", reason)]


def test_one_run_of_each_seed_is_kept_the_first_by_id_and_then_by_time():
    run = sound("a", 1, attempt="002")
    other, earlier = replace(run, run_id="a-0x"), sound("a", 1, attempt="001", wall_s=8.0)
    for order in ([run, other], [other, run]):
        assert out(*order) == [("a-1", "seed 1 is here already as run a-0x")]
        assert kept(*order) == {"a": ["a-0x"]}
    for order in ([run, earlier], [earlier, run]):
        arms, left = screen(order, baseline="a")
        assert arms == {"a": [earlier]}
        assert [e.reason for e in left] == ["seed 1 is here already as run a-1"]
