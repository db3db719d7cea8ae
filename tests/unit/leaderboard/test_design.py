"""What a caption says of a study's design, case by case."""

from gfcr.leaderboard.design import added_seeds, began, compared_with, differences
from tests.cases import over
from tests.records import record


def begun(seed, attempt, *seeds, **more):
    """A run that began at a time, and whose study asked for the seeds then."""
    return record("a", seed, result={"roster": {"seeds": seeds}, "attempt": attempt}, **more)


def test_runs_sort_by_the_time_at_which_they_began():
    assert [began(r) for r in (begun(0, 7), begun(0, "007"), record())] == ["7", "007", ""]


@over(
    ("runs", "added"),
    [
        ([], []),
        ([record(seed=s) for s in range(4)], []),
        ([begun(0, "0", 0)], []),
        ([begun(0, "0", 0, 1), begun(1, "1", 0, 1)], []),
        ([begun(0, "0", 0, 1), begun(2, "1", 2)], [2]),
        ([begun(2, "1", 2), begun(0, "0", 0, 1)], [2]),
        ([begun(0, "0", 0), begun(1, "1", 1), begun(2, "2", 2)], [2]),
        ([begun(0, "0", 0, 1), begun(1, "1", 0, 1, 2, 3)], [2, 3]),
        ([begun(0, "0", 0, 1), begun(5, "1", 0, 1)], [5]),
        ([begun(0, "0", 0, 1), begun(2, "1", 2), begun(3, "2", 3)], [2, 3]),
        ([begun(0, "0", 0, 1, 2), begun(1, "1", 0, 1)], []),
        ([begun(0, "0", 0), begun(1, "1", 0, 1)], []),
        ([begun(0, "0", 0, 1), begun(2, "1", 2, study="other")], []),
        ([begun(0, "0", 0, 1), begun(2, "1", 2), begun(2, "1", 2, study="other")], [2]),
    ],
)
def test_seeds_that_were_asked_for_after_two_others_are_named(runs, added):
    one, several = "Seed {} was", "Seeds {} were"
    who = (one if len(added) == 1 else several).format(", ".join(map(str, added)))
    told = [f"{who} added after the first runs: the p-values do not know that."]
    assert added_seeds(runs) == (told if added else [])


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
