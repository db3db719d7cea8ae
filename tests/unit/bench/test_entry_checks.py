"""What keeps a study out of the committed leaderboard."""

from benchmarks.entries.checks import problems_of
from gfcr import leaderboard
from gfcr.leaderboard import ArmSeed
from gfcr.leaderboard.certificates import NOTES
from gfcr.tracking.names import encode_name
from tests.cases import over
from tests.records import board, rowed
from tests.studies import arm, run


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


def test_an_arm_that_was_given_up_early_is_none():
    given_up = [run("slow", s, status="stopped", stopped="behind") for s in range(5)]
    assert problems(*arm("dapo", accuracy=0.6), *given_up) == []


CLEAN = {"commit": "c0ffee", "code": "decaf"}
MADE = {"provenance": CLEAN, "seeds": (0, 1, 2, 3, 4)}


def told_of(*rows, **given):
    """What is wrong with a table of these rows, the first of them the baseline's."""
    whole = board(*rows, **{"baseline": rows[0].arm, **given})
    return [f"{p.check}: {p.text}" for p in problems_of(whole)]


def made(name, **changes):
    return rowed(name, **{**MADE, **changes})


def test_a_margin_that_is_larger_than_the_study_s_own_is_a_problem():
    rows = made("a"), made("b")
    assert told_of(*rows, margin=0.02) == told_of(*rows, margin=0.01) == []
    assert told_of(*rows, margin=0.021) == [
        "margin: 0.021 was chosen after the runs, the study's own is 0.02: a larger one is no "
        "finding of equivalence"
    ]


def test_nothing_to_compare_with_is_a_problem():
    alone = ["ranked: there is no second arm, or no baseline, to compare"]
    assert told_of(made("a")) == told_of(made("a"), made("b"), baseline=None) == alone


def test_other_seeds_than_the_others_are_a_problem():
    assert told_of(made("a"), made("b", seeds=tuple(range(6)))) == [
        "seeds: the arms were run with different seeds"
    ]


@over("state", ["uncertified", "inconclusive", "biased", "lossless"])
def test_speculation_without_a_lossless_certificate_is_a_problem(state):
    told = [] if state == "lossless" else [f"certificates: b: {NOTES[state]}"]
    assert told_of(made("a"), made("b", certificate=state)) == told


def test_local_changes_and_unlike_versions_are_problems():
    def at(**provenance):
        return made("b", provenance={**CLEAN, **provenance})

    assert told_of(made("a"), at(commit="c0ffee+")) == [
        "provenance: b: run from a checkout with local changes (c0ffee+)",
        "provenance: arms were run at different commits: c0ffee, c0ffee+",
    ]
    assert told_of(made("a"), at(**{"version.vllm": "1.0 | 2.0"})) == [
        "provenance: b: seeds differ in version.vllm, or it changed in the course of one"
    ]


def test_an_arm_without_a_rank_is_told_once_by_its_seeds_where_it_has_one():
    few = "has {} seeds, at least 5 are asked for"
    for seeds, ranked in (((0,), []), ((0, 1), ["ranked: b: one seed"])):
        row = made("b", seeds=seeds, unranked="one seed")
        assert told_of(made("a"), row) == [*ranked, f"seeds: b {few.format(len(seeds))}"]


def test_a_row_whose_runs_tell_no_commit_has_an_unknown_one():
    row = made("b", provenance={"code": "decaf"})
    assert told_of(made("a"), row) == [
        "provenance: b: the commit is unknown",
        "provenance: arms were run at different commits: c0ffee, unknown",
    ]


def test_what_arms_have_in_common_is_to_be_the_same_code():
    def arm(name, **units):
        code = {f"code.{encode_name(unit)}": held for unit, held in units.items()}
        return made(name, provenance={**CLEAN, **code})

    assert told_of(arm("a", pack="1"), arm("b", pack="1"), arm("c", own="2")) == []
    differ = "provenance: arms were run with different code of"
    theirs = {"é.py": "4", "pack.age": "unknown"}
    assert told_of(arm("a", pack="1", **theirs), arm("b", pack="0", **{**theirs, "é.py": "3"})) == [
        f"{differ} é.py: 3, 4",
        f"{differ} pack: 0, 1",
        "provenance: the code of pack.age is in no file: an edit between runs is not noticed",
    ]
    other = made("b", provenance={"commit": "c0ffee", "code": "cafe"})
    assert told_of(made("a"), other) == [f"{differ} gfcr: cafe, decaf"]
