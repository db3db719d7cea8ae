"""A verdict is what all readings of the records agree on."""

from dataclasses import replace
from math import inf
from statistics import fmean

import numpy as np
import pytest

from gfcr.leaderboard.readings import Compared, Start, compared, limits_of
from gfcr.stats import Comparison, Interval, compare
from tests.cases import over
from tests.records import held

LUCK = np.random.default_rng(0).random((2, 2, 4, 3))
"""Arms, before and after, seeds, prompts."""
OURS, THEIRS = LUCK[:, 1]
PROMPTS = "pqr"


def answered(arm, seed, after, *, before=None, lost=(), lost_before=()):
    """Two answers a prompt; one of each prompt in `lost` has no score."""

    def measured(scores, gone):
        return {"per_prompt": dict(zip(PROMPTS, scores, strict=True)), "unscorable": gone}

    start = [0.5] * 3 if before is None else before
    return held(
        arm,
        seed,
        before=measured(start, dict.fromkeys(lost_before, 1)),
        after=measured(after, dict.fromkeys(lost, 1)),
        asked={"samples": 2},
    )


def arm(name, scores, *, before=None, seeds=range(4), **lost):
    starts = [None] * 4 if before is None else before
    return [answered(name, s, scores[s], before=starts[s], **lost) for s in seeds]


def found(ours, theirs, *, limits=(0.0, 1.0), **more):
    got = compared(ours, baseline=theirs, limits=limits, **more)
    assert got is not None
    return got


def filled(scores, end, *, column):
    """What one of two answers that is worth `end` makes of a prompt's score."""
    made = np.array(scores)
    made[:, column] = (made[:, column] + end) / 2
    return made


def test_the_seeds_of_both_are_paired_prompt_by_prompt():
    ours, theirs = arm("b", OURS, seeds=[0, 1, 3]), arm("a", THEIRS, seeds=[1, 2, 3])
    usual = compare(OURS[[1, 3]], baseline=THEIRS[[1, 3]], span=1.0)
    assert found(ours, theirs) == Compared(shown=usual, readings=(usual,), start=None)
    assert compared(ours[:1], baseline=theirs, limits=(0, 1)) is None


def test_only_prompts_that_all_the_runs_were_asked_are_compared():
    ours, theirs = arm("b", OURS), arm("a", THEIRS)
    ours[2].result["heldout"]["after"]["per_prompt"].pop("q")
    usual = compare(OURS[:, [0, 2]], baseline=THEIRS[:, [0, 2]], span=1.0)
    assert found(ours, theirs).shown == usual


def test_a_difference_may_be_as_large_as_the_declared_rewards_let_it():
    ours, theirs = arm("b", 3 * OURS), arm("a", 3 * THEIRS)
    assert found(ours, theirs).shown == compare(3 * OURS, baseline=3 * THEIRS, span=inf)
    for run in (*ours, *theirs):
        run.result["reward_range"] = [-1.0, 3.0]
    bounded = compare(3 * OURS, baseline=3 * THEIRS, span=4.0)
    assert found(ours, theirs).shown == bounded
    assert bounded != compare(3 * OURS, baseline=3 * THEIRS, span=inf)


@over(("ours", "theirs"), [(OURS, 3 * THEIRS), (3 * OURS, THEIRS)])
def test_scores_of_either_arm_beyond_the_rewards_bound_no_difference(ours, theirs):
    got = found(arm("b", ours), arm("a", theirs)).shown
    assert got == compare(ours, baseline=theirs, span=inf)
    assert got != compare(ours, baseline=theirs, span=1.0)


@over(("mine_SP", "other_SP"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_lost_answers_are_read_against_each_arm_and_shown_is_what_lies_between(mine_SP, other_SP):
    limits = (0.0, 0.875)
    ours, theirs = arm("b", mine_SP, lost="p"), arm("a", other_SP, lost="r")
    low, high = (
        compare(
            filled(mine_SP, mine, column=0), baseline=filled(other_SP, other, column=2), span=1.0
        )
        for mine, other in (limits, limits[::-1])
    )
    got = found(ours, theirs, limits=limits)
    assert got.readings == (low, high) and low.difference.value < high.difference.value
    shown, both = got.shown, (low, high)
    for name in ("difference", "inner"):
        each = [getattr(one, name) for one in both]
        assert getattr(shown, name) == Interval(
            value=fmean(e.value for e in each),
            low=min(e.low for e in each),
            high=max(e.high for e in each),
        )
    assert (shown.pairs, shown.improves) == (4, fmean(c.improves for c in both))
    assert shown.detectable == max(c.detectable for c in both)
    apart = low.difference.value * high.difference.value < 0
    assert shown.p_value == (1.0 if apart else max(c.p_value for c in both))


@over("wide", [0, 1])
def test_what_could_be_detected_is_the_larger_of_the_readings(wide):
    """Lost answers at the end that is farther from the other prompt's spread the differences."""
    ours, theirs = OURS.copy(), THEIRS.copy()
    ours[:, 1], theirs[:, 1] = (0.0, 1.0) if wide else (1.0, 0.0)
    got = found(arm("b", ours, lost="p"), arm("a", theirs, lost="r"))
    sizes = [one.detectable for one in got.readings]
    assert got.shown.detectable == sizes[wide] > sizes[1 - wide]


def test_readings_that_agree_on_who_is_ahead_have_the_larger_p_value():
    ours, theirs = arm("b", 0.5 + OURS / 2, lost="p"), arm("a", THEIRS / 8)
    got = found(ours, theirs)
    each = [one.p_value for one in got.readings]
    assert len({*each}) == 2 and got.p_value == got.shown.p_value == max(each)
    level = [answered("b", s, [0.5] * 3, lost="p") for s in range(4)]
    same = [answered("a", s, [0.5] * 3) for s in range(4)]
    assert found(level, same).p_value == found(level, same).shown.p_value == 1.0


STARTS = LUCK[:, 0]


def test_where_the_starts_differ_the_gain_is_another_reading():
    ours = arm("b", OURS, before=STARTS[0])
    theirs = arm("a", THEIRS, before=STARTS[1])
    start = compare(STARTS[0], baseline=STARTS[1], span=1.0)
    usual = compare(OURS, baseline=THEIRS, span=1.0)
    gain = compare(OURS - STARTS[0], baseline=THEIRS - STARTS[1], span=2.0)
    got = found(ours, theirs)
    assert got == Compared(
        shown=usual,
        readings=(usual, gain),
        start=Start(
            changed=12,
            answers=12,
            difference=start.difference.value,
            p_value=start.p_value,
        ),
    )
    assert found(ours, theirs, same_start=False) == replace(got, readings=(usual,))
    wide = compare(OURS - STARTS[0], baseline=THEIRS - STARTS[1], span=6.0)
    assert found(ours, theirs, limits=(-1.0, 2.0)).readings[1] == wide


def test_a_gain_is_of_the_prompts_asked_at_both_times_and_answers_are_lost_at_either():
    ours = arm("b", OURS, before=STARTS[0], lost="p")
    theirs = arm("a", THEIRS, before=STARTS[1], lost_before="q")
    ours[0].result["heldout"]["before"]["per_prompt"].pop("r")
    got = found(ours, theirs)
    assert len(got.readings) == 4, "the score and the gain, each at both ends"
    for reading, (mine, other) in zip(got.readings[2:], ((0.0, 1.0), (1.0, 0.0)), strict=True):
        gained = (filled(OURS, mine, column=0) - STARTS[0])[:, :2]
        theirs_gained = (THEIRS - filled(STARTS[1], mine, column=1))[:, :2]
        assert reading == compare(gained, baseline=theirs_gained, span=2.0)
        assert other == 1.0 - mine
    ours[0].result["heldout"]["after"]["per_prompt"].pop("q")
    narrow = found(ours, theirs).readings[2]
    theirs_left = (THEIRS - STARTS[1])[:, [0]]
    ours_left = (filled(OURS, 0.0, column=0) - STARTS[0])[:, [0]]
    assert narrow == compare(ours_left, baseline=theirs_left, span=2.0)
    only = compare(STARTS[0][:, [0]], baseline=STARTS[1][:, [0]], span=1.0)
    assert (got.start.answers, got.start.difference) == (4, only.difference.value)


def test_answers_lost_before_training_alone_make_readings_of_the_gain_alone():
    theirs = arm("a", THEIRS, before=STARTS[1], lost_before="q")
    assert len(found(arm("b", OURS, before=STARTS[0]), theirs).readings) == 3


def test_a_start_that_moved_alike_everywhere_is_judged_by_the_rewards_span():
    ours, theirs = (
        [answered(name, s, THEIRS[s], before=[start] * 3) for s in range(4)]
        for name, start in (("b", 0.5), ("a", 0.25))
    )
    for run in (*ours, *theirs):
        run.result["reward_range"] = [-1.0, 3.0]
    level = np.full((4, 3), 0.25)
    wanted, *others = (compare(2 * level, baseline=level, span=s).p_value for s in (4.0, 1.0, 2.0))
    assert found(ours, theirs).start.p_value == wanted and wanted not in others


def test_a_start_is_told_by_what_changed_and_is_another_where_chance_does_not_explain_it():
    before = np.array(STARTS[0])
    before[1, 2] += 0.25
    got = found(arm("b", OURS, before=before), arm("a", THEIRS, before=STARTS[0])).start
    assert (got.changed, got.answers, got.difference) == (1, 12, pytest.approx(0.25 / 12))
    assert got.note("a") == (
        "before training 1 of 12 held-out scores differ from a's at the same seeds, by +0.021 in "
        "the mean"
    )
    rounded = [[0.0, 1e-9, 0.0]] * 4
    assert (
        found(arm("b", OURS, before=rounded), arm("a", THEIRS, before=[[0.0] * 3] * 4)).start
        is None
    )
    assert [replace(got, p_value=p).elsewhere for p in (0.049, 0.05)] == [True, False]


@over(
    ("scores", "declared", "limits"),
    [
        ([0.25, 0.5], None, (0.0, 1.0)),
        ([0.25, 0.5], [-1.0, 2.0], (-1.0, 2.0)),
        ([-2.0, 3.0], [-1.0, 2.0], (-2.0, 3.0)),
        ([0.25, 0.5], [None, None], (0.0, 1.0)),
        ([-0.5, 1.5], [None, None], (-0.5, 1.5)),
        ([0.25, 0.5], [-1.0, None], (-1.0, 1.0)),
        ([0.25, 0.5], [None, 2.0], (0.0, 2.0)),
    ],
)
@over("when", ["before", "after"])
def test_a_lost_answer_may_have_had_any_reward_that_is_declared_or_was_seen(
    scores, declared, limits, when
):
    other = held("b", after={"per_prompt": {"p": 0.5}}, reward_range=declared)
    seen = {"per_prompt": dict(zip("pq", scores, strict=True))}
    assert limits_of([held(**{when: seen}, reward_range=declared), other]) == limits
    assert limits_of([]) == (0.0, 1.0)


def reading(value, *, p_value, pairs=5):
    span = Interval(value=value, low=value - 0.01, high=value + 0.01)
    return Comparison(
        pairs=pairs, difference=span, inner=span, p_value=p_value, detectable=0.1, improves=0.5
    )


def of(*readings):
    return Compared(shown=readings[0], readings=readings, start=None)


def test_a_verdict_needs_all_readings():
    ahead, behind, even = (
        reading(0.5, p_value=0.01),
        reading(-0.5, p_value=0.02),
        reading(0, p_value=1),
    )
    assert of(ahead).p_value == 0.01 and of(ahead, reading(0.2, p_value=0.03)).p_value == 0.03
    assert of(ahead, behind).p_value == of(ahead, even).p_value == 1.0
    assert of(ahead).verdict(p_value=0.01, margin=0.02) == "better"
    assert of(behind, behind).verdict(p_value=0.01, margin=0.02) == "worse"
    assert of(ahead, behind).verdict(p_value=0.01, margin=0.02) == "inconclusive"
    assert of(even).verdict(p_value=1.0, margin=0.02) == "equivalent"
    assert of(even).verdict(p_value=1.0, margin=0.001) == "inconclusive"
