"""What keeps a study out of the committed leaderboard."""

from dataclasses import replace

from gfcr import leaderboard
from gfcr.leaderboard import ArmSeed
from gfcr.leaderboard.checks import problems_of
from gfcr.tracking.names import encode_name
from tests.cases import over
from tests.certified import certified
from tests.records import board, rowed
from tests.unit.leaderboard.test_leaderboard import arm, run


def problems(*runs, asked=()):
    board = leaderboard.rank([*arm("grpo", accuracy=0.5), *runs], baseline="grpo", asked=asked)
    return [f"{p.check}: {p.text}" for p in problems_of(board)]


def test_a_sound_study_has_no_problem():
    assert problems(*arm("dapo", accuracy=0.6)) == []


def test_what_is_missing_failed_or_short_of_seeds_is_named():
    runs = [*arm("dapo", accuracy=0.6, seeds=4), run("dapo", 4, status="failed", error="boom")]
    asked = [ArmSeed(arm=name, seed=s) for name in ("grpo", "dapo") for s in range(5)]
    assert problems(*runs, asked=[*asked, ArmSeed(arm="pods", seed=7)]) == [
        "finished: pods, seed 7 has not been run",
        "finished: dapo, seed 4: the run failed: boom",
        "ranked: dapo: dapo has 4 of 5 seeds, and not 4: there is no verdict over some of the "
        "seeds",
        "seeds: dapo has 4 seeds, at least 5 are asked for",
    ]


@over(
    ("own", "margin", "fatal"),
    [
        (None, 0.3, True),
        (None, 0.021, True),
        (None, 0.02, False),
        ("0.05", 0.3, True),
        ("0.05", 0.05, False),
        ("0.05", 0.02, False),
        ("0.05", None, False),
    ],
)
def test_a_margin_that_was_chosen_after_the_runs_and_is_larger_is_a_problem(own, margin, fatal):
    said = {} if own is None else {"gfcr.minimum_effect": own}
    runs = [r for n, s in (("grpo", 0.5), ("dapo", 0.56)) for r in arm(n, accuracy=s, tags=said)]
    board = leaderboard.rank(runs, baseline="grpo", margin=margin)
    found = [p.text for p in problems_of(board) if p.check == "margin"]
    words = f"{margin or 0:g} was chosen after the runs"
    assert [words in text and f"own is {own or '0.02'}" in text for text in found] == [True] * fatal
    assert any(f"Margin {words}" in note for note in board.notes) == fatal
    of_another = {**said, "gfcr.metric": "length/all/mean"}
    other = [replace(r, tags={**r.tags, **of_another}) for r in runs]
    loose = leaderboard.rank(other, baseline="grpo", margin=0.05)
    assert [p.check for p in problems_of(loose)] == ["margin"], "5 tokens are no margin of a score"


def test_other_seeds_than_the_others_are_a_problem():
    assert "seeds: the arms were run with different seeds" in problems(
        *arm("dapo", accuracy=0.6, seeds=6)
    )


def test_an_arm_that_was_given_up_early_is_none():
    given_up = [run("slow", s, status="stopped", stopped="behind") for s in range(5)]
    assert problems(*arm("dapo", accuracy=0.6), *given_up) == []


def test_speculation_without_a_lossless_certificate_is_a_problem():
    for state, word in (("biased", "biased"), ("inconclusive", "could not tell"), ("", "without")):
        fast = [certified(r, state) for r in arm("fast", accuracy=0.6)]
        assert any(p.startswith("certificates: fast") and word in p for p in problems(*fast))
    fast = [certified(r, "lossless") for r in arm("fast", accuracy=0.6)]
    assert not any(p.startswith("certificates") for p in problems(*fast))


def test_local_changes_unknown_and_mixed_commits_are_problems():
    def at(commit):
        return problems(*arm("dapo", accuracy=0.6, tags={"gfcr.commit": commit}))

    assert any("local changes (c0ffee+)" in p for p in at("c0ffee+"))
    assert any("the commit is unknown" in p for p in at("unknown"))
    assert at("decade") == ["provenance: arms were run at different commits: c0ffee, decade"]
    mixed = [*arm("dapo", accuracy=0.6, seeds=4)]
    mixed.append(run("dapo", 4, accuracy=0.6, tags={"gfcr.version.vllm": "2.0"}))
    told = "seeds differ in version.vllm, or it changed in the course of one"
    assert f"provenance: dapo: {told}" in problems(*mixed)


def test_nothing_to_compare_and_unequal_budgets_are_problems():
    assert any(p.startswith("ranked: there is no second arm") for p in problems())
    spent = {"generated": 2000, "trained": 2000}
    long = arm("long", accuracy=0.9, updates=80, wall_s=130.0, tokens=spent)
    assert any(p.startswith("ranked: long: unequal budgets") for p in problems(*long))


CLEAN = {"commit": "c0ffee", "code": "decaf"}
MADE = {"provenance": CLEAN, "seeds": (0, 1, 2, 3, 4)}


def told_of(*rows):
    """What is wrong with a table of these rows, the first of them the baseline's."""
    return [f"{p.check}: {p.text}" for p in problems_of(board(*rows, baseline=rows[0].arm))]


def test_an_arm_without_a_rank_is_told_once_by_its_seeds_where_it_has_one():
    few = "has {} seeds, at least 5 are asked for"
    for seeds, ranked in (((0,), []), ((0, 1), ["ranked: b: one seed"])):
        row = rowed("b", **{**MADE, "seeds": seeds}, unranked="one seed")
        assert told_of(rowed("a", **MADE), row) == [*ranked, f"seeds: b {few.format(len(seeds))}"]


def test_a_row_whose_runs_tell_no_commit_has_an_unknown_one():
    row = rowed("b", **{**MADE, "provenance": {"code": "decaf"}})
    assert told_of(rowed("a", **MADE), row) == [
        "provenance: b: the commit is unknown",
        "provenance: arms were run at different commits: c0ffee, unknown",
    ]


def test_what_arms_have_in_common_is_to_be_the_same_code():
    def arm(name, **units):
        code = {f"code.{encode_name(unit)}": held for unit, held in units.items()}
        return rowed(name, **{**MADE, "provenance": {**CLEAN, **code}})

    assert told_of(arm("a", pack="1"), arm("b", pack="1"), arm("c", own="2")) == []
    differ = "provenance: arms were run with different code of"
    theirs = {"é.py": "4", "pack.age": "unknown"}
    assert told_of(arm("a", pack="1", **theirs), arm("b", pack="0", **{**theirs, "é.py": "3"})) == [
        f"{differ} é.py: 3, 4",
        f"{differ} pack: 0, 1",
        "provenance: the code of pack.age is in no file: an edit between runs is not noticed",
    ]
    other = rowed("b", **{**MADE, "provenance": {"commit": "c0ffee", "code": "cafe"}})
    assert told_of(rowed("a", **MADE), other) == [f"{differ} gfcr: cafe, decaf"]
