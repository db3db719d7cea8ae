"""What was chosen after looking, and what it costs, case by case."""

from dataclasses import replace

from gfcr.leaderboard.chosen import (
    attempt_of,
    compared_with,
    differences,
    looks_of,
    price,
    started_over,
)
from gfcr.tracking.attempts import Attempt, code_of
from tests.cases import over
from tests.records import record, sound

CODE = {"gfcr.code": "k", "gfcr.spec_hash": "s"}


def begun(seed, attempt, *seeds, **more):
    """A run of the attempt whose study asked for the seeds."""
    return record("a", seed, result={"roster": {"seeds": seeds}, "attempt": attempt}, **more)


def test_attempts_sort_by_the_time_at_which_they_began():
    assert [attempt_of(r) for r in (begun(0, 7), begun(0, "007"), record())] == ["7", "007", ""]


def test_each_look_after_the_first_multiplies_p_values_by_five():
    assert [price(looks) for looks in (1, 2, 3)] == [1, 5, 25]


@over(
    ("runs", "looks"),
    [
        ([], 1),
        ([record()], 1),
        ([begun(0, "0", 0)], 1),
        ([begun(0, "0", 0, 1), begun(1, "1", 0, 1)], 1),
        ([begun(0, "0", 0, 1), begun(2, "1", 2)], 2),
        ([begun(2, "1", 2), begun(0, "0", 0, 1)], 2),
        ([begun(0, "0", 0), begun(1, "1", 1), begun(2, "2", 2)], 2),
        ([begun(0, "0", 0, 1), begun(1, "1", 0, 1, 2), begun(2, "2", 2)], 2),
        ([begun(0, "0", 0, 1), begun(1, "1", 1), begun(2, "2", 2), begun(3, "3", 3)], 3),
        ([begun(0, "", 0, 1, 2), begun(9, "", 9)], 2),
        ([begun(0, "", 9), begun(9, "", 0, 9)], 1),
        ([begun(9, "", 9), begun(0, "", 0, 9)], 1),
        ([begun(0, "0", 0, 1), begun(2, "1", 2, study="other")], 1),
        ([begun(0, "0", 0, 1), begun(2, "1", 2), begun(2, "1", 2, study="other")], 2),
    ],
)
def test_a_look_is_had_whenever_seeds_were_asked_for_that_nobody_had_asked_for(runs, looks):
    assert looks_of(runs) == looks


def attempt(score=0.4, *, code=None, status="finished", updates=40):
    own = code_of(CODE) if code is None else code
    return Attempt(id="0", status=status, updates=updates, score=score, code=own)


AGAIN = (
    "a, seed 3 was run before {} ({}) and started over: the first score stands. Starting over is "
    "for a run that failed, or for every run whose code has changed; an interrupted run goes on "
    "without --fresh, and another look takes more seeds or a study of another name"
)


def test_the_first_score_stands_unless_all_was_run_again_with_other_code():
    base = [record("z", tags=CODE)]
    run = record("a", 3, tags=CODE)

    def over(*earlier, runs=(), baseline=base, **changes):
        again = replace(run, earlier=earlier, **changes)
        return started_over([again, *runs], baseline=baseline)

    assert over() == ([], [])
    mine = code_of(CODE)
    same = "by the same code"
    assert over(attempt()) == ([AGAIN.format(same, f"0.400 by code {mine}")], [])
    lost = attempt(None, status="paused", updates=3, code="")
    told = f"0.400 by code {mine}, paused after 3 updates by code unknown"
    assert over(attempt(), lost) == ([AGAIN.format(same, told)], [])
    failed = attempt(None, status="failed")
    assert over(failed, attempt(code="old"), attempt(0.5)) == (
        [AGAIN.format(same, f"0.500 by code {mine}")],
        [],
    ), "only what may have been a reason is told"
    other = (["seed 3 was run before (0.400 by code old)"],)
    assert over(attempt(code="old")) == ([], *other)
    assert over(failed)[1] == [f"seed 3 was run before (failed after 40 updates by code {mine})"]
    mixed = [AGAIN.format("by other code than some of the runs beside it", "0.400 by code old")]
    newer = {**CODE, "gfcr.code": "l"}
    assert over(attempt(code="old"), runs=[record("a", 4, tags=newer)]) == (mixed, [])
    assert over(attempt(code="old"), baseline=[record("z", tags=newer)]) == (mixed, [])
    part = {**CODE, "gfcr.code.mine": "m"}
    assert over(attempt(code="old"), runs=[record("a", 4, tags=part)]) == (mixed, [])
    assert over(attempt(code="old"), baseline=[record("z", tags=part)]) == ([], *other)


def test_where_no_code_is_told_the_commit_is_the_code():
    one, other = ({"gfcr.commit": c} for c in "cd")
    again = record("a", 3, tags=one, earlier=(attempt(code="old"),))
    assert started_over([again], baseline=[record("z", tags=one)])[0] == []
    assert len(started_over([again], baseline=[record("z", tags=other)])[0]) == 1
    coded = {"gfcr.code": "k"}
    sealed = record("a", 3, tags={**coded, **one}, earlier=(attempt(code="old"),))
    assert started_over([sealed], baseline=[record("z", tags={**coded, **other})])[0] == []


def named(*arms, baseline="a", spec=""):
    tags = {"gfcr.baseline": baseline, **({"gfcr.spec_hash": spec} if spec else {})}
    return [record(arm, tags=tags) for arm in arms]


def counted(runs, *, baseline="a", arms="abc", scored=()):
    return compared_with(runs, baseline=baseline, arms=arms, scored=scored)


def test_every_other_arm_of_the_study_is_a_comparison_and_every_spec_is_an_arm():
    assert counted(named(*"abc")) == (2, [])
    assert counted(named(*"abc"), scored=named(*"abc", spec="s")) == (2, [])
    scored = [*named(*"abd"), *named("b", "d", spec="s"), *named("b", "e", spec="t")]
    told = "Arms were tried beside these: b (3 specs), d (2 specs), d (not in the table), "
    told += "e (not in the table); p-values are corrected for each."
    assert counted(named(*"abc"), scored=scored) == (1 + 3 + 1 + 2 + 1 - 1, [told])
    assert counted(named("a", "a"), arms="a", scored=named("a", "a")) == (0, [])


def test_a_baseline_that_nobody_named_before_makes_every_pair_a_comparison():
    end = "{} may have been chosen afterwards, and p-values are corrected for all {} pairs of arms."
    own = "The study's own baseline is {}: "
    assert counted(named(*"abcd"), arms="abcd", baseline="b") == (
        6,
        [own.format("a") + end.format("b", 6)],
    )
    none = "Not all runs name a baseline: "
    assert counted(named(*"abc", baseline="")) == (3, [none + end.format("a", 3)])
    mixed = [*named("a"), *named("b", baseline=""), *named("c", baseline="c")]
    assert counted(mixed) == (3, [own.format("c") + end.format("a", 3)])
    several = [*named("a", baseline="c"), *named("b", baseline="b")]
    assert counted(several) == (3, [own.format("b, c") + end.format("a", 3)])
    unsaid = [*named("a"), record("b")]
    assert counted(unsaid) == (3, [none + end.format("a", 3)])
    tried = named("z")
    beside = "Arms were tried beside these: z (not in the table); p-values are corrected for each."
    assert counted(named(*"abc", baseline="b"), scored=tried) == (
        6,
        [beside, own.format("b") + end.format("a", 6)],
    )


def test_of_two_arms_there_is_one_pair_whichever_is_the_baseline():
    assert counted(named("a", "b", baseline="b"), arms="ab") == (
        1,
        ["The study's own baseline is b."],
    )
    assert counted(named("a", "b", baseline=""), arms="ab") == (1, [])


def test_what_an_arm_has_of_its_own_is_told_but_not_who_it_is():
    def of(name, **params):
        params = {k.replace("__", "."): v for k, v in params.items()}
        return [record(name, 0, params=params), record(name, 1, params={"only.first": "counts"})]

    own = {"study": "s", "arm": "x", "seed": "7", "strategy__group_size": "4"}
    arms = {
        "a": of("a", trainer__lr="1", same="2"),
        "b": of("b", trainer__lr="3", same="2", sampling__top_k="5", **own),
        "c": of("c", trainer__lr="1", same="2", **own),
        "d": of("d", trainer__lr="1", arms="2"),
    }
    assert differences(arms, baseline="a") == [
        "b differs in sampling.top_k: 5, baseline none, trainer.lr: 3, baseline 1.",
        "d differs in arms: 2, baseline none, same: none, baseline 2.",
    ]
    foreign = {"a": of("a"), "b": [record("b", params={"strategy.name": "theirs"})]}
    assert differences(foreign, baseline="a") == ["b: its strategy is not gfcr's: theirs."]
    both = {name: [record(name, params={"strategy.name": "theirs"})] for name in "ab"}
    assert [told[0] for told in differences(both, baseline="b")] == ["b", "a"]
    assert sound().params == {}
