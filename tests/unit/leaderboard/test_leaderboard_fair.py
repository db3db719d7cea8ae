"""What an arm cannot buy a verdict with: another question, lost answers, chosen seeds, a start."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest

from gfcr import leaderboard
from gfcr.leaderboard import ArmSeed
from gfcr.leaderboard.readings import limits_of
from gfcr.stats import compare, judge
from tests.cases import over
from tests.heldout import asked, measured
from tests.unit.leaderboard.test_leaderboard import arm, only, planned, run


def answered(name, seed, *, right, lost=(), before=None, samples=1):
    """A run with these shares of right answers by prompt, `lost` of them (by index) unscorable."""
    made = run(name, seed)
    scores = {f"p{i}": float(score) for i, score in enumerate(right)}
    after = measured(scores, unscorable={f"p{i}": 1 for i in lost}, samples=samples)
    start = measured(dict(zip(scores, before, strict=True)) if before is not None else scores)
    if before is None:
        start = measured(dict.fromkeys(scores, 0.25))
    made.result["heldout"] = {
        "asked": asked(len(scores), samples=samples),
        "before": {**start, "n": len(scores) * samples},
        "after": after,
    }
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


def test_a_difference_that_no_reading_explains_stays_one():
    rng = np.random.default_rng(1)
    shares = {"a": 0.2, "b": 0.9}
    runs = [
        answered(n, s, right=rng.random(200) < shares[n], lost=[1, 5])
        for n in "ab"
        for s in range(5)
    ]
    row = only(judged(runs), "b")
    assert (row.versus.verdict, row.unscorable, row.answers) == ("better", 10, 1000)
    text = leaderboard.to_markdown(judged(runs))
    assert "10 of 1000 held-out answers could not be scored" in text and "| unscorable |" in text
    assert "b,b" in leaderboard.to_csv(judged(runs)) and ",1000,10," in leaderboard.to_csv(
        judged(runs)
    )


def test_ranks_fronts_and_targets_count_them_as_the_lowest_reward():
    runs = [answered("a", s, right=[1.0] * 6 + [0.0] * 4) for s in range(3)]
    runs += [answered("b", s, right=[1.0] * 6 + [0.0] * 4, lost=[6, 7, 8]) for s in range(3)]
    board = judged(runs, target=0.7)
    assert [(r.arm, round(r.score.value, 3), r.score.floor) for r in board.rows] == [
        ("a", 0.6, 0.6),
        ("b", 0.857, 0.6),
    ]
    assert only(board, "b").to_target.reached == 0
    negative = copy.deepcopy(runs)
    negative[0].result["heldout"]["after"]["per_prompt"]["p9"] = -2.0
    assert limits_of(negative) == (-2.0, 1.0)


OTHER = {
    "prompts": {"digest": "0ther"},
    "number of prompts": {"prompts": 39},
    "answers a prompt": {"samples": 2},
}


@over("case", OTHER)
def test_another_question_under_the_same_settings_is_left_out(case):
    runs = [*arm("a", accuracy=0.5), *(copy.deepcopy(r) for r in arm("b", accuracy=0.9))]
    for r in runs[5:]:
        result = r.result["heldout"]
        result["asked"].update(OTHER[case])
        if case == "number of prompts":
            for when in ("before", "after"):
                scores = result[when]["per_prompt"]
                scores.pop("p0")
                result[when] = measured(scores)
            r.result["curve"][-1][3] = result["after"]["accuracy"]
        if case == "answers a prompt":
            for when in ("before", "after"):
                result[when]["n"] *= 2
    board = judged(runs)
    assert [row.arm for row in board.rows] == ["a"]
    assert all(
        "held-out prompts" in e.reason and "where this table" in e.reason for e in board.excluded
    )


@over(
    "name",
    ["evaluation.sampling.top_k", "evaluation.generate.tool.name", "engine.dtype", "task.seed"],
)
def test_a_setting_of_the_measurement_that_differs_is_left_out(name):
    def under(runs, value):
        return [replace(r, params={**r.params, name: value}) for r in runs]

    board = judged([*under(arm("a", accuracy=0.5), "0"), *under(arm("b", accuracy=0.9), "1")])
    assert [row.arm for row in board.rows] == ["a"]
    assert f"{name} 1, where this table is about" in board.excluded[0].reason
    # Present in one arm alone, it differs as well.
    board = judged([*arm("a", accuracy=0.5), *under(arm("b", accuracy=0.9), "1")])
    assert [row.arm for row in board.rows] == ["a"]


def test_a_study_that_compares_engines_says_so_under_its_table():
    tags = {"gfcr.compares": "engine.dtype model"}
    runs = arm("a", accuracy=0.5, tags=tags)
    other = arm("b", accuracy=0.7, tags={**tags, "gfcr.model": "large"})
    runs += [replace(r, params={**r.params, "engine.dtype": "bfloat16"}) for r in other]
    board = judged(runs)
    assert only(board, "b").versus.verdict == "better"
    assert "its arms may differ in engine.dtype, model" in leaderboard.caption(board)
    # The word is the baseline's: an arm cannot say it for itself.
    alone = [*arm("a", accuracy=0.5), *runs[5:]]
    assert [row.arm for row in judged(alone).rows] == ["a"]


def test_a_run_that_does_not_say_what_was_asked_is_left_out():
    odd = copy.deepcopy(run("b"))
    del odd.result["heldout"]["asked"]
    (out,) = judged([*arm("a", accuracy=0.5), odd]).excluded
    assert "heldout.asked.digest" in out.reason


# ---------------------------------------------------------------- seeds


def test_the_luckiest_seeds_of_many_buy_no_verdict():
    """Twenty seeds of one law, the five kept where `b` is furthest ahead."""
    rng = np.random.default_rng(5)
    luck = {name: rng.normal(0.5, 0.05, 20) for name in "ab"}
    best = np.argsort(luck["a"] - luck["b"])[:5]
    every = [run(n, s, accuracy=luck[n][s]) for n in "ab" for s in range(20)]
    file = [ArmSeed(arm=n, seed=s) for n in "ab" for s in range(20)]
    chosen = [r for r in every if r.seed in best]
    assert only(judged(chosen), "b").versus.verdict == "better", "the test is about nothing"
    board = judged(chosen, asked=file)
    row = only(board, "b")
    assert (row.rank, row.versus.verdict) == (None, "inconclusive")
    assert "b has 5 of 20 seeds" in row.unranked and only(board, "a").rank is None
    assert len(board.missing) == 30 and "Missing: a (seeds" in leaderboard.caption(board)
    # Without the file: dropped in one arm only, or chosen by a filter.
    for runs, kwargs in (
        ([r for r in every if r.arm == "a" or r.seed in best], {}),
        ([r for r in every if r.arm == "b" or r.seed in best], {}),
        (every, {"where": [f"seed in {tuple(map(int, best))}"]}),
    ):
        board = judged(runs, **kwargs)
        assert only(board, "b").versus.verdict == "inconclusive"
        assert only(board, "b").rank is None


def test_whole_arms_that_are_missing_are_named_and_count():
    runs = [*arm("a", accuracy=0.5, spread=0.03), *arm("b", accuracy=0.54, spread=0.03)]
    runs = [planned(r, baseline="a") for r in runs]
    file = [ArmSeed(arm=n, seed=s) for n in "abcd" for s in range(5)]
    alone, board = judged(runs), judged(runs, asked=file)
    p = only(alone, "b").versus.p_adjusted
    assert only(board, "b").versus.p_adjusted == pytest.approx(min(1, 3 * p))
    told = leaderboard.caption(board)
    assert "Missing: c (seeds 0, 1, 2, 3, 4), d (seeds 0, 1, 2, 3, 4)." in told


def test_arms_that_a_filter_takes_out_count_all_the_same():
    runs = [r for n in "abcd" for r in arm(n, accuracy=0.5 + 0.04 * (n == "b"), spread=0.03)]
    runs = [planned(r, baseline="a") for r in runs]
    whole, part = judged(runs), judged(runs, where=["arm in ('a', 'b')"])
    assert only(part, "b").versus.p_adjusted >= only(whole, "b").versus.p_adjusted
    assert only(part, "b").versus.p_adjusted == pytest.approx(
        min(1, 3 * only(part, "b").versus.comparison.p_value)
    )
    assert "Taken out by --where: arms c, d." in leaderboard.caption(part)


def test_a_failed_run_of_another_arm_moves_neither_margin_nor_baseline():
    said = {"gfcr.minimum_effect": "0.05", "gfcr.baseline": "a"}
    runs = [*arm("a", accuracy=0.5, tags=said), *arm("b", accuracy=0.5, tags=said)]
    for tags in ({}, {"gfcr.minimum_effect": "0.5", "gfcr.baseline": "z"}):
        odd = [run("c", 0, status="failed", tags=tags)]
        assert judged([*runs, *odd]).margin == 0.05
        assert leaderboard.baseline_of([*runs, *odd]) == "a"
    loose = arm("c", accuracy=0.5, tags={**said, "gfcr.minimum_effect": "0.5"})
    board = judged([*runs, *loose])
    assert board.margin == 0.05
    assert "several minimum effects (0.05, 0.5): the smallest counts" in leaderboard.caption(board)


# ---------------------------------------------------------------- the start


def started(name, *, before, after, seeds=5, prompts=100):
    rng = np.random.default_rng([3, ord(name)])
    shared = [np.random.default_rng([4, s]).random(prompts) for s in range(seeds)]
    return [
        answered(
            name,
            s,
            right=rng.random(prompts) < after,
            before=(shared[s] < before).astype(float),
        )
        for s in range(seeds)
    ]


def test_an_arm_that_begins_with_another_policy_has_no_rank():
    board = judged([*started("a", before=0.4, after=0.5), *started("b", before=0.8, after=0.9)])
    row = only(board, "b")
    assert (row.rank, row.versus.verdict) == (None, "inconclusive")
    assert "did not begin with the baseline's policy" in row.unranked
    assert "by +0.378" in row.unranked and "of 500 held-out scores differ" in row.unranked
    same = judged([*started("a", before=0.4, after=0.5), *started("b", before=0.4, after=0.9)])
    assert (only(same, "b").versus.verdict, only(same, "b").rank) == ("better", 1)
    assert not any("before training" in note for note in only(same, "b").notes)


def test_a_slightly_better_start_is_named_and_the_gain_must_show_too():
    base = started("a", before=0.4, after=0.5)
    ahead = started("b", before=0.4, after=0.9)
    flip = ahead[0].result["heldout"]["before"]
    flip["per_prompt"] = {p: 1.0 - s if p == "p1" else s for p, s in flip["per_prompt"].items()}
    flip["accuracy"] = float(np.mean(list(flip["per_prompt"].values())))
    row = only(judged([*base, *ahead]), "b")
    assert row.versus.verdict == "better" and row.rank == 1
    assert any("before training 1 of 500 held-out scores differ from a's" in n for n in row.notes)
    assert math.isfinite(row.versus.p_adjusted)


def test_a_baseline_or_margin_that_is_not_the_study_s_is_named():
    said = {"gfcr.minimum_effect": "0.05", "gfcr.baseline": "a"}
    runs = [r for n in "ab" for r in arm(n, accuracy=0.5, tags=said)]
    told = leaderboard.caption(leaderboard.rank(runs, baseline="b", margin=0.3))
    assert "The study's own baseline is a." in told
    assert "Margin 0.3 was chosen after the runs: the study's own is 0.05." in told
    assert "own" not in leaderboard.caption(judged(runs))


def test_seeds_taken_off_the_file_after_they_were_run_stay_in_the_table(monkeypatch):
    every = [run(n, s, accuracy=0.5 + 0.01 * s) for n in "ab" for s in range(8)]
    old = [replace(run("b", 9), tags={**run("b").tags, "gfcr.spec_hash": "older"})]
    monkeypatch.setattr(leaderboard, "read_runs", lambda uri, **_: [*every, *old])
    file = {r.run_id: ArmSeed(arm=r.arm, seed=r.seed) for r in every if r.seed < 3}
    board = leaderboard.build("sqlite:///store.db", asked=file, baseline="a")
    assert {row.seeds for row in board.rows} == {tuple(range(8))}
    assert all(row.rank for row in board.rows) and not board.excluded


def test_a_study_that_compares_engines_still_begins_with_one_policy():
    tags = {"gfcr.compares": "engine.max_running"}
    runs = [*started("a", before=0.4, after=0.5), *started("b", before=0.8, after=0.9)]
    told = [replace(r, tags={**r.tags, **tags}) for r in runs]
    assert only(judged(told), "b").rank is None
    models = [replace(r, tags={**r.tags, "gfcr.compares": "model"}) for r in runs]
    row = only(judged(models), "b")
    assert row.versus.verdict == "better" and any("before training" in n for n in row.notes)
