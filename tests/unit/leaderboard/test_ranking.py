"""What a table says of a study as a whole: who is in it, on what terms, and in which order."""

from dataclasses import replace

import pytest

from gfcr import leaderboard
from gfcr.config import HELDOUT
from gfcr.errors import ConfigError
from gfcr.leaderboard import ArmSeed
from gfcr.leaderboard.measure import scores_of
from gfcr.stats import noise_floor
from tests.certified import certified
from tests.heldout import asked, measured
from tests.records import held, sound
from tests.studies import arm, only, run

PLAN = {"gfcr.baseline": "a"}
RAN = {"strategy": "grpo", "tokens": {"generated": 1}}


def some(name, accuracy, *, seeds=3, prompts=4, tags=PLAN, **more):
    """A few cheap runs whose study names `a` as its baseline."""
    return arm(name, accuracy=accuracy, seeds=seeds, prompts=prompts, tags=tags, **more)


def ranked(runs, **kwargs):
    return leaderboard.rank(runs, baseline="a", **kwargs)


def test_a_table_of_one_study_is_whole():
    runs = [*some("b", 0.9), *some("a", 0.5), *some("c", 0.3)]
    failed = [run(n, s, status="failed", prompts=4, tags=PLAN) for n, s in (("d", 1), ("d", 0))]
    again = replace(failed[1], run_id="d-00")
    board = ranked([*failed, again, *runs])
    assert [(row.arm, row.rank, row.unranked) for row in board.rows] == [
        ("b", 1, ""),
        ("a", 2, ""),
        ("c", 3, ""),
    ]
    assert [(e.arm, e.seed, e.run_id) for e in board.excluded] == [
        ("d", 0, "d-0"),
        ("d", 0, "d-00"),
        ("d", 1, "d-1"),
    ]
    assert (board.study, board.metric, board.baseline) == ("study", HELDOUT, "a")
    assert (board.margin, board.own_margin) == (0.02, 0.02)
    assert board.target == pytest.approx(only(board, "a").score.value)
    assert (board.noise_floor, board.comparisons) == (None, 3)
    assert board.missing == (ArmSeed(arm="d", seed=2),) and board.notes == ()
    assert [row.versus and row.versus.verdict for row in board.rows] == ["better", None, "worse"]
    assert all(row.to_target.runs == 3 for row in board.rows)


def test_without_a_baseline_nothing_is_compared():
    board = leaderboard.rank([*some("b", 0.9), *some("a", 0.5)])
    assert (board.baseline, board.target, board.noise_floor, board.comparisons) == (None,) * 3 + (
        0,
    )
    assert [(row.versus, row.to_target) for row in board.rows] == [(None, None)] * 2
    assert [row.rank for row in board.rows] == [1, 2]
    thirds = [0.1, 0.2, 0.3]  # their sum is another from behind
    alike = [
        held(name, s, after=measured(dict(zip("pqr", own, strict=True))), asked=asked(3), **RAN)
        for name, own in (("a", thirds), ("b", thirds[::-1]))
        for s in range(2)
    ]
    assert [row.rank for row in leaderboard.rank(alike).rows] == [1, 1]
    assert leaderboard.rank(some("a", 0.5), target=0.4).rows[0].to_target.reached == 3
    assert leaderboard.rank([]).study == ""


def test_the_noise_floor_is_of_the_baseline_s_seeds_and_prompts():
    runs = some("a", 0.5, seeds=6, prompts=2, spread=0.05)
    wanted = noise_floor(scores_of(runs, prompts=["p0", "p1"], unscored=0))
    alone = noise_floor(scores_of(runs, prompts=[], unscored=0))
    assert wanted and alone and wanted.false_wins < alone.false_wins
    assert ranked([*runs, *some("b", 0.9, seeds=6, prompts=2)]).noise_floor == wanted


def test_an_answer_without_a_score_is_in_the_noise_as_the_lowest_reward():
    def floor_with(last, **lost):
        seeds = [
            run("a", seed, accuracy=0.2 * seed - 0.5, prompts=4, tags=PLAN) for seed in range(5)
        ]
        after = measured({**dict.fromkeys(("p0", "p1", "p2"), 1.0), "p3": last}, unscorable=lost)
        heldout = {**seeds[0].result["heldout"], "after": after}
        results = [{**seeds[0].result, "heldout": heldout}, *(s.result for s in seeds[1:])]
        runs = [
            replace(seed, result={**result, "reward_range": [-1, 1]})
            for seed, result in zip(seeds, results, strict=True)
        ]
        return leaderboard.rank(runs, baseline="a").noise_floor

    scored = floor_with(-1.0)
    assert scored is not None and floor_with(-1.0, p3=1) == scored


def test_the_target_is_the_baseline_s_score_by_which_it_is_ranked():
    """Of rewards of which no range is declared the lowest that was seen in any arm counts."""
    asked = {"digest": "d", "prompts": 4, "samples": 1}

    def arm(name, *scores):
        after = measured(dict(zip("pqrs", scores, strict=False)), unscorable={"s": 1})
        heldout = {"before": after, "after": after, "asked": asked}
        curve = [[0, 0, 0.0, after["accuracy"]], [4, 10, 9.0, after["accuracy"]]]
        lost = {"curve": curve, "unscorable": [1, 1], "heldout": heldout}
        return [sound(name, seed, **lost) for seed in range(2)]

    board = leaderboard.rank([*arm("a", 1.0, 1.0, 1.0), *arm("b", 1.0, 1.0, -1.0)], baseline="a")
    rows = {row.arm: row for row in board.rows}
    assert board.target == rows["a"].score.floor == 0.5
    assert [rows[name].to_target.reached for name in "ab"] == [2, 0]


def test_studies_in_one_table_keep_their_arms_apart():
    runs = [replace(r, study=s) for s in "yx" for r in (*some("a", 0.5), *some("b", 0.9))]
    board = leaderboard.rank(runs, baseline="x/a")
    assert board.study == "x, y"
    assert {row.arm for row in board.rows} == {"x/a", "x/b", "y/a", "y/b"}
    assert not board.excluded and not board.missing
    for told in ("arm == 'b'", "arm == 'b' and score > 0"):
        part = leaderboard.rank(runs, baseline="x/a", where=[told])
        assert {row.arm for row in part.rows} == {"x/a", "x/b", "y/b"}, "the baseline stays"
    odd = replace(run("a", 3), study="z", damage="it cannot be read")
    board = ranked([*some("a", 0.5), odd])
    assert (board.study, [e.arm for e in board.excluded]) == ("study", ["a"])
    assert leaderboard.rank([odd]).study == "z"


def test_runs_beside_the_table_count_as_comparisons_if_they_came_to_a_score():
    runs = [*some("a", 0.5), *some("b", 0.9)]
    other = replace(run("old", 7, tags=PLAN), run_id="old")
    board = ranked(runs, others=[other])
    assert board.comparisons == 2
    assert board.notes == (
        "Arms were tried beside these: old (not in the table); p-values are corrected for each.",
    )
    for odd in (replace(other, status="failed"), replace(other, status="stopped")):
        board = ranked(runs, others=[odd])
        assert (board.comparisons, board.notes) == (1, ())


def test_an_arm_that_its_file_no_longer_names_is_not_missing_once_it_was_run():
    roster = {"arms": ["a", "b", "old"], "seeds": [0, 1]}
    named = [replace(r, result={**r.result, "roster": roster}) for r in some("a", 0.5, seeds=2)]
    runs = [*named, *some("b", 0.9, seeds=2)]
    asked = [ArmSeed(arm=r.arm, seed=r.seed) for r in runs]
    ran = [replace(r, run_id=f"old-{r.seed}") for r in some("old", 0.7, seeds=2)]
    gone = ranked(runs, asked=asked, others=ran)
    assert (gone.comparisons, gone.missing) == (2, ())
    assert "old (not in the table)" in gone.notes[0]
    half = ranked(runs, asked=asked, others=[ran[0], replace(ran[1], status="paused")])
    assert (half.comparisons, half.missing) == (2, (ArmSeed(arm="old", seed=1),))
    never = ranked(runs, asked=asked)
    assert (never.comparisons, len(never.missing), never.notes) == (2, 2, ())


def test_an_arm_with_a_biased_drafter_costs_the_others_nothing():
    biased = [certified(r, "biased") for r in some("b", 0.9)]
    runs = [*some("a", 0.5), *some("c", 0.7)]
    board, without = ranked([*runs, *biased]), ranked(runs)
    assert board.comparisons == without.comparisons == 1
    biased_row, other = only(board, "b"), only(board, "c")
    assert (biased_row.rank, biased_row.versus.verdict, other.rank) == (None, "inconclusive", 1)
    assert biased_row is board.rows[-1] and other.versus == only(without, "c").versus
    assert not (biased_row.pareto.tokens or biased_row.pareto.seconds)
    why = (
        "baseline='b' cannot be compared with: its drafter was audited as biased: it samples from "
    )
    with pytest.raises(ConfigError) as error:
        leaderboard.rank([*runs, *biased], baseline="b")
    assert str(error.value) == f"{why}another policy than it trains. Name another arm."


def effect(name, size=None, *, metric=None, **more):
    said = {"gfcr.minimum_effect": size, "gfcr.metric": metric}
    return some(name, 0.5, tags={**PLAN, **{k: v for k, v in said.items() if v}}, **more)


def test_metric_and_margin_are_what_the_runs_say_and_the_strictest_where_they_differ():
    def stated(*runs, **kwargs):
        board = ranked([r for one in runs for r in one], **kwargs)
        return board.metric, board.margin, board.own_margin, board.notes

    assert stated(effect("a", "0.05", metric=HELDOUT)) == (HELDOUT, 0.05, 0.05, ())
    length = effect("a", "5", metric="length/all/mean")
    assert stated(length) == ("length/all/mean", 0.02, 0.02, ())
    several = "The runs name several minimum effects ({}): the smallest counts."
    one, other = effect("a", "0.05"), effect("b", "0.01")
    assert stated(one, other) == (HELDOUT, 0.01, 0.01, (several.format("0.01, 0.05"),))
    assert stated(one, effect("b")) == (HELDOUT, 0.02, 0.02, (several.format("0.02, 0.05"),))
    mixed = stated(effect("a", "0.05", metric="length/all/mean"), effect("b", "0.05"))
    assert mixed == (HELDOUT, 0.05, 0.05, ())
    given = "Margin 0.1 was chosen after the runs: the study's own is 0.05."
    assert stated(one, margin=0.1) == (HELDOUT, 0.1, 0.05, (given,))
    failed = [run("c", status="failed", tags={"gfcr.minimum_effect": "0.01"})]
    assert stated(one, failed)[1:] == (0.05, 0.05, ()), "who is left out has no say"
    strict = "Margin 0.01 is given: the study's own is 0.05."
    assert stated(one, margin=0.01) == (HELDOUT, 0.01, 0.05, (strict,))
    assert stated(one, margin=0.05) == (HELDOUT, 0.05, 0.05, ())


def test_who_lacks_seeds_of_the_arm_or_of_the_baseline_has_no_rank():
    part = [*some("a", 0.5), *some("b", 0.9)[:2], *some("c", 0.7, seeds=4)]
    rows = {row.arm: row for row in ranked(part).rows}
    why = "{} has {} of {} seeds, and not {}: there is no verdict over some of the seeds"
    assert rows["a"].rank == 1 and rows["a"].notes == ()
    assert rows["b"].unranked == why.format("b", 2, 3, "2")
    assert rows["c"].unranked == why.format("a", 3, 4, "3")
    assert rows["b"].versus.verdict == rows["c"].versus.verdict == "inconclusive"
    asked = [ArmSeed(arm=n, seed=s) for n in "ab" for s in range(4)]
    board = ranked([*some("a", 0.5), *some("b", 0.9)], asked=asked)
    assert only(board, "a").unranked == why.format("a", 3, 4, "3")
    assert only(board, "b").notes[:2] == (why.format("b", 3, 4, "3"), why.format("a", 3, 4, "3"))
    assert board.missing == (ArmSeed(arm="a", seed=3), ArmSeed(arm="b", seed=3))
    other = ranked([*some("a", 0.5), *some("b", 0.9)], asked=[*asked[:3], ArmSeed(arm="z", seed=9)])
    assert other.missing == (ArmSeed(arm="z", seed=9),), "what the file asks for, and no more"
    assert other.comparisons == 2, "an arm of which nothing is there was to be compared"


def test_what_a_filter_takes_out_is_told():
    runs = [*some("a", 0.5), *some("b", 0.9), *some("c", 0.7)]
    end = "p-values are corrected for all of the study's arms, and there is no verdict over chosen "
    part = ranked(runs, where=["seed < 2", "arm == 'b'"])
    assert part.notes[-1] == f"Taken out by --where: arms c; seeds 2. {end}seeds."
    assert part.comparisons == 2
    assert [(r.rank, r.versus and r.versus.verdict) for r in part.rows] == [
        (None, "inconclusive"),
        (None, None),
    ]
    assert ranked(runs, where=["seed < 3"]).notes == ()
    rows = ranked(runs, where=["score > 0.8"])
    assert [row.arm for row in rows.rows] == ["b", "a"] and rows.notes == ()


def test_the_study_s_design_is_told_under_its_table():
    tags = {**PLAN, "gfcr.compares": "model engine.dtype"}
    told = ("By the study's design its arms may differ in engine.dtype, model.",)
    assert ranked([*some("a", 0.5, tags=tags), *some("b", 0.9)]).notes == told
    assert ranked([*some("a", 0.5), *some("b", 0.9, tags=tags)]).notes == ()


def test_a_baseline_that_cannot_be_compared_with_says_why():
    runs = [*some("b", 0.9), *some("c", 0.7)]
    odd = [run("a", s, status="failed", error=e) for s, e in enumerate(("y", "x", "x"))]
    with pytest.raises(ConfigError) as error:
        ranked([*runs, *odd, run("d", 0, status="failed", error="z")])
    assert str(error.value) == (
        "baseline='a' has no usable run (the run failed: x; the run failed: y). Run it again, or "
        "name another: b, c."
    )
    with pytest.raises(ConfigError, match=r"Run it again\.$"):  # and there is no other
        ranked(odd)
    with pytest.raises(ConfigError, match=r"unknown baseline arm.*'a'.*b, c") as error:
        ranked(runs)
    assert "usable" not in str(error.value)


def test_rows_go_by_the_score_that_counts_lost_answers_and_share_a_rank_where_it_is_equal():
    runs = [
        *(replace(r, arm=n, run_id=f"{n}-{r.seed}") for n in "cb" for r in some("x", 0.6)),
        *some("a", 0.5),
        *some("lone", 0.99)[:1],
        *some("first", 0.8),
    ]
    board = ranked(runs)
    order = [(row.arm, row.rank) for row in board.rows]
    assert order == [("first", 1), ("b", 2), ("c", 2), ("a", 4), ("lone", None)]


def test_fronts_are_of_ranked_arms_by_tokens_for_training_and_by_seconds():
    def spending(name, accuracy, tokens, seconds, *, seeds=3):
        spent = {"generated": tokens + 500, "trained": tokens, "evaluation": 500}
        return some(name, accuracy, tokens=spent, wall_s=seconds, seeds=seeds)

    runs = [
        *spending("a", 0.5, 1000, 60.0),
        *spending("b", 0.9, 1040, 58.0),
        *spending("c", 0.7, 1020, 59.0),
        *spending("lone", 0.99, 10, 1.0, seeds=1),
    ]
    fronts = {row.arm: (row.pareto.tokens, row.pareto.seconds) for row in ranked(runs).rows}
    assert fronts == {"a": (True, False), "b": (True, True), "c": (True, False)} | {
        "c": (True, False),
        "lone": (False, False),
    }


def test_an_arm_that_is_worse_is_on_no_front_however_little_it_spends():
    cheap = {"generated": 10, "trained": 10, "evaluation": 0}
    dear = {"generated": 1000, "trained": 1000, "evaluation": 0}
    board = ranked([*some("a", 0.9, tokens=dear), *some("b", 0.3, tokens=cheap, wall_s=0.1)])
    idle = only(board, "b")
    assert idle.versus.verdict == "worse" and idle.rank == 2
    assert not (idle.pareto.tokens or idle.pareto.seconds)
    assert only(board, "a").pareto.tokens


# ---------------------------------------------------------------- as the study planned it


def planned(runs, *, seeds, arms="ab", begun=0):
    """The runs of a study that asked for these arms and seeds when it began."""
    told = {"roster": {"seeds": [*seeds], "arms": [*arms]}, "attempt": f"{begun:03d}"}
    return [replace(r, result={**r.result, **told, "arm": r.arm}) for r in runs]


def test_seeds_and_arms_that_a_study_asked_for_are_missing_if_they_are_gone_everywhere():
    runs = planned([*some("a", 0.5), *some("b", 0.9)], seeds=range(3), arms="abc")
    board = ranked([r for r in runs if r.seed != 1])
    assert [(s.arm, s.seed) for s in board.missing] == [
        *(("a", 1), ("b", 1)),
        *(("c", 0), ("c", 1), ("c", 2)),
    ]
    assert only(board, "b").rank is None and "and not 1" in only(board, "b").unranked
    assert board.comparisons == 2
    two = [replace(r, study=s, result={**r.result, "study": s}) for s in "xy" for r in runs]
    missing = leaderboard.rank(two, baseline="x/a").missing
    assert {s.arm for s in missing} == {"x/c", "y/c"}


def test_seeds_that_were_added_are_named_and_change_no_figure():
    runs = [*some("a", 0.5, seeds=4), *some("b", 0.503, seeds=4)]
    first, last = ([r for r in runs if (r.seed < 2) == early] for early in (True, False))
    once = ranked(planned(runs, seeds=range(4)))
    more = ranked(
        [*planned(first, seeds=range(2)), *planned(last, seeds=range(4), begun=1)],
    )
    assert only(once, "b").versus == only(more, "b").versus and once.notes == ()
    told = "Seeds 2, 3 were added after the first runs: the p-values do not know that."
    assert more.notes == (told,)


def test_a_baseline_that_was_chosen_afterwards_counts_all_pairs():
    runs = [*some("a", 0.5), *some("b", 0.52), *some("c", 0.51), *some("d", 0.5)]
    own, other = ranked(runs), leaderboard.rank(runs, baseline="d")
    assert (own.comparisons, other.comparisons) == (3, 6)
    assert "all 6 pairs of arms" in other.notes[0] and own.notes == ()


def test_a_handicap_of_one_arm_is_told():
    slow = {"trainer.lr": "2e-07", "strategy.group_size": "4", "seed": "0", "sampling.top_k": "5"}
    base = [replace(r, params={**r.params, **slow}) for r in some("a", 0.5)]
    told = "b differs in sampling.top_k: none, baseline 5, trainer.lr: 0.001, baseline 2e-07."
    assert ranked([*base, *some("b", 0.9)]).notes == (told,)
