"""The seeds that each arm of a study is expected to have, and those that are missing."""

from dataclasses import replace

from gfcr.leaderboard import ArmSeed
from gfcr.leaderboard.expected import by_arm, expected_of, lack, missing_of
from tests.records import record


def pairs(text):
    return [ArmSeed(arm=one[0], seed=int(one[1:])) for one in text.split()]


def asked(arm, seed, **roster):
    return record(arm, seed, result={"roster": roster})


def test_an_arm_is_to_have_what_it_has_a_run_of_and_what_was_ever_asked_for():
    runs = [record("a", 4, status="failed"), asked("b", 0, arms=["b", "c"], seeds=[0, 1])]
    assert expected_of(runs, asked=pairs("a5 d7")) == {
        **{"a": frozenset({4, 5}), "b": frozenset({0, 1}), "c": frozenset({0, 1})},
        "d": frozenset({7}),
    }
    assert expected_of([asked("a", 0, arms=["z"])], asked=()) == {"a": frozenset({0})}
    assert expected_of([asked("a", 0, seeds=[3])], asked=()) == {"a": frozenset({0})}


def test_a_table_of_several_studies_puts_theirs_before_the_arms_that_were_asked_for():
    run = asked("a", 0, arms=["a", "c"], seeds=[0, 1])
    told = replace(run, arm="x/a", result={**run.result, "arm": "a"})
    assert {*expected_of([told], asked=())} == {"x/a", "x/c"}
    assert {*expected_of([run], asked=())} == {"a", "c"}


def test_missing_is_what_the_file_asks_for_or_what_other_arms_have():
    expected = {"b": {1, 0}, "a": {0, 2}}
    held = [record("a", 0), record("b", 1)]
    assert missing_of(expected, records=held, by_file=True) == tuple(pairs("a2 b0"))
    assert missing_of(expected, records=held, by_file=False) == tuple(pairs("a1 a2 b0 b2"))


def test_an_arm_with_some_of_its_seeds_says_which_it_has_not():
    told = "a has {} of {} seeds, and not {}: there is no verdict over some of the seeds"
    assert lack("a", wanted=[0, 1], seeds=[1, 0, 2]) == []
    assert lack("a", wanted=[3, 1, 0], seeds=[1, 5]) == [told.format(2, 4, "0, 3")]
    ten, eleven = (lack("a", wanted=range(n), seeds=[]) for n in (10, 11))
    numbers = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert ten == [told.format(0, 10, numbers)]
    assert eleven == [told.format(0, 11, f"{numbers}, ...")]


def test_seats_are_written_by_arm():
    assert by_arm(pairs("d3 d4 p0")) == "d (seeds 3, 4), p (seed 0)"
