"""Answers that nobody could score are never to an arm's advantage."""

from dataclasses import replace

import numpy as np
import pytest

from gfcr import leaderboard
from gfcr.stats import compare, judge
from tests.heldout import asked, measured
from tests.studies import only, run


def answered(name, seed, *, right, lost=()):
    """A run with these shares of right answers by prompt, `lost` of them (by index) unscorable."""
    made = run(name, seed)
    scores = {f"p{i}": float(score) for i, score in enumerate(right)}
    after = measured(scores, unscorable={f"p{i}": 1 for i in lost})
    start = measured(dict.fromkeys(scores, 0.25))
    made.result["heldout"] = {"asked": asked(len(scores)), "before": start, "after": after}
    made.result["curve"] = [[0, 0, 0.0, start["accuracy"]], [40, 1000, 60.0, after["accuracy"]]]
    made.result["unscorable"] = [0, len(lost)]
    return made


def judged(runs, **kwargs):
    return leaderboard.rank(runs, baseline="a", **kwargs)


def lossy(study, *, seeds=3, prompts=64):
    """Two arms with one law; each wrong answer of `b` is unscorable with probability 1/2."""
    rng = np.random.default_rng([7, study])
    runs = []
    for seed in range(seeds):
        for name in "ab":
            right = rng.integers(0, 2, prompts)
            wrong = np.flatnonzero(right == 0)
            lost = wrong[rng.random(len(wrong)) < 0.5] if name == "b" else ()
            runs.append(answered(name, seed, right=right, lost=lost))
    return runs


@pytest.mark.slow
def test_wrong_answers_that_nobody_can_score_make_no_arm_better():
    """The scores as recorded show an effect of 0.16 that is not there."""
    naive, verdicts = [], []
    for study in range(40):
        runs = lossy(study)
        board = judged(runs)
        row = only(board, "b")
        verdicts.append(row.versus.verdict)
        assert row.unscorable > 0 and row.score.value > 0.55
        assert row.score.low < row.score.floor < row.score.value < row.score.high
        recorded = [
            [[r.result["heldout"]["after"]["accuracy"]] for r in runs if r.arm == name]
            for name in "ba"
        ]
        found = compare(recorded[0], baseline=recorded[1])
        naive.append(judge(found, p_value=found.p_value, margin=0.02))
    assert naive.count("better") >= 8, "the test is about nothing"
    assert set(verdicts) == {"inconclusive"}


def test_nor_does_it_make_the_baseline_worse_or_two_arms_equivalent():
    swapped = [replace(r, arm={"a": "b", "b": "a"}[r.arm]) for r in lossy(0)]
    assert only(judged(swapped), "b").versus.verdict == "inconclusive"
    right = [1.0] * 200
    same = [answered("a", s, right=right) for s in range(5)]
    same += [answered("b", s, right=right, lost=[3]) for s in range(5)]
    row = only(judged(same, margin=0.004), "b")
    assert row.versus.verdict == "inconclusive", "one answer of 200 may be worth 0.005"
    assert only(judged(same, margin=0.2), "b").versus.verdict == "equivalent"


def test_a_baseline_with_unscorable_answers_reaches_its_own_score():
    right = [1.0] * 6 + [0.0] * 4
    runs = [answered("a", seed, right=right, lost=[6, 7, 8]) for seed in range(2)]
    runs += [answered("b", seed, right=right) for seed in range(2)]
    board = judged(runs)
    assert board.target == pytest.approx(only(board, "a").score.floor)
    assert board.target < only(board, "a").score.value
    assert [row.to_target.reached for row in board.rows] == [2, 2]


def test_ranks_fronts_and_targets_count_them_as_the_lowest_reward():
    runs = [answered("a", s, right=[1.0] * 6 + [0.0] * 4) for s in range(3)]
    runs += [answered("b", s, right=[1.0] * 6 + [0.0] * 4, lost=[6, 7, 8]) for s in range(3)]
    board = judged(runs, target=0.7)
    assert [(r.arm, round(r.score.value, 3), r.score.floor) for r in board.rows] == [
        ("a", 0.6, 0.6),
        ("b", 0.857, 0.6),
    ]
    assert only(board, "b").to_target.reached == 0
