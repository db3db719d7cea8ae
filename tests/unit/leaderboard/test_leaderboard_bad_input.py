"""Whatever cannot be believed is named with its reason, and never averaged in silence."""

import math
from dataclasses import replace

from gfcr import leaderboard
from tests.cases import over
from tests.unit.leaderboard.test_leaderboard import arm, only, run


def rank(*runs, **kwargs):
    kwargs.setdefault("baseline", "grpo")
    return leaderboard.rank([*arm("grpo", accuracy=0.5), *runs], **kwargs)


def without(key, *, seed=9):
    odd = run("dapo", seed)
    return replace(odd, result={k: v for k, v in odd.result.items() if k != key})


def told(board):
    """All the words of the table."""
    return leaderboard.to_markdown(board)


def test_a_study_with_one_seed_is_shown_without_rank_interval_or_verdict():
    board = leaderboard.rank([run("grpo"), run("dapo", accuracy=0.9)], baseline="grpo")
    data = leaderboard.to_dict(board)
    assert [row["rank"] for row in data["rows"]] == [None, None]
    assert all(row["score"]["low"] is row["score"]["iqm_low"] is None for row in data["rows"])
    assert only(board, "dapo").versus.verdict == "inconclusive"
    assert told(board).count("one seed: no interval") == 2
    assert "Without a rank" in leaderboard.caption(board)


def test_an_arm_with_one_seed_is_listed_after_the_ranked_ones():
    board = rank(*arm("dapo", accuracy=0.6), run("lucky", accuracy=0.99))
    assert [row.arm for row in board.rows] == ["dapo", "grpo", "lucky"]
    assert not board.rows[-1].pareto.tokens


def test_a_crashed_arm_is_named_with_its_error():
    runs = [run("dapo", s, status="failed", error="CUDA out of memory") for s in range(3)]
    board = rank(*runs)
    assert [row.arm for row in board.rows] == ["grpo"]
    assert [e.seed for e in board.excluded] == [0, 1, 2]
    assert told(board).count("the run failed: CUDA out of memory") == 3


def test_a_run_stopped_early_is_named_with_the_reason():
    board = rank(run("dapo", status="stopped", stopped="behind grpo after 10 updates"))
    assert "stopped early: behind grpo after 10 updates" in board.excluded[0].reason


@over(
    ("odd", "reason"),
    [
        (run("dapo", 9, heldout={"after": {"accuracy": math.nan}}), "held-out score is nan"),
        (run("dapo", 9, heldout={"after": {}}), "held-out score is None"),
        (without("heldout"), "held-out score is None"),
        (run("dapo", 9, wall_s=math.inf), "wall_s is inf"),
        (without("wall_s"), "wall_s is None"),
        (without("updates"), "updates is None"),
        (without("tokens"), "tokens.generated is None"),
        (without("strategy"), "names no strategy"),
    ],
)
def test_a_run_without_a_figure_that_rows_need_is_left_out(odd, reason):
    fine = arm("dapo", accuracy=0.6)
    board = rank(*fine, odd)
    (excluded,) = board.excluded
    assert (excluded.seed, reason in excluded.reason) == (9, True), excluded.reason
    assert {r.arm: r.score for r in board.rows} == {r.arm: r.score for r in rank(*fine).rows}
    assert "dapo has 5 of 6 seeds" in only(board, "dapo").unranked


def test_a_prompt_s_score_that_is_no_number_is_named():
    odd = run("dapo", 9)
    odd.result["heldout"]["after"]["per_prompt"]["p3"] = math.nan
    assert "score of prompt p3" in rank(odd).excluded[0].reason


def test_a_cost_that_some_seeds_lack_is_not_averaged():
    runs = arm("dapo", accuracy=0.6)
    del runs[1].result["r_gen"]
    runs[2].result["r_gen"] = math.nan
    row = only(rank(*runs), "dapo")
    assert math.isnan(row.cost.r_gen) and row.cost.wall_s == 60
    assert "r_gen is not averaged: seed 1, 2 did not record it" in row.notes


def test_unequal_budgets_are_shown_without_rank():
    spent = {"generated": 2000, "trained": 2000}
    board = rank(*arm("long", accuracy=0.9, updates=80, wall_s=130.0, tokens=spent))
    row = board.rows[-1]
    assert (row.arm, row.rank, row.versus.verdict) == ("long", None, "inconclusive")
    assert "unequal budgets" in row.unranked and "2,000 for 800 tokens" in row.unranked
    assert row.versus.p_adjusted == 1.0


def spending(name, accuracy, *, bound="1000"):
    """Runs that a budget of tokens ended, after a number of updates of their own."""
    size = 1000 if name == "grpo" else 1100
    runs = [
        replace(r, params={**r.params, "budget.generated_tokens": bound})
        for r in arm(name, accuracy=accuracy, tokens={"generated": size, "trained": size})
    ]
    for r in runs:
        r.result.update(stopped_by="generated_tokens", updates=size // 50 + r.seed, wall_s=size / 9)
    return runs


def test_runs_that_one_budget_ended_are_comparable_whatever_their_updates():
    board = leaderboard.rank([*spending("grpo", 0.5), *spending("dapo", 0.7)], baseline="grpo")
    assert not board.excluded and only(board, "dapo").seeds == (0, 1, 2, 3, 4)
    assert only(board, "dapo").versus.verdict == "better"
    other = [*spending("grpo", 0.5), *spending("dapo", 0.7, bound="1100")]
    assert "unequal budgets" in only(leaderboard.rank(other, baseline="grpo"), "dapo").unranked


@over(
    ("key", "value", "reason"),
    [
        ("task.max_terms", "20", "task.max_terms 20"),
        ("evaluation.temperature", "0.0", "evaluation.temperature 0.0"),
    ],
)
def test_a_task_of_the_same_name_with_other_values_is_another_task(key, value, reason):
    def posed(runs, given):
        return [replace(r, params={**r.params, key: given}) for r in runs]

    runs = [*posed(arm("grpo", accuracy=0.5), "1.0"), *posed(arm("dapo", accuracy=0.9), value)]
    board = leaderboard.rank(runs, baseline="grpo")
    assert [row.arm for row in board.rows] == ["grpo"]
    assert len(board.excluded) == 5 and all(reason in e.reason for e in board.excluded)


def test_two_tasks_in_a_table_are_not_mixed():
    other = arm("dapo", accuracy=0.9, tags={"gfcr.task": "gsm8k"})
    board = rank(*other)
    assert [row.arm for row in board.rows] == ["grpo"]
    assert "task gsm8k, model demo, where this table is about task chain_sum" in told(board)


def test_every_reason_is_in_every_form():
    board = rank(*arm("dapo", accuracy=0.6), without("wall_s"), run("one"))
    held = leaderboard.to_dict(board)
    assert held["excluded"][0]["reason"] in told(board)
    assert held["excluded"][0]["reason"] in leaderboard.remarks(board)
    assert "- one: one seed" in leaderboard.remarks(board)
    (one,) = [row for row in held["rows"] if row["arm"] == "one"]
    assert one["unranked"] in told(board) and one["unranked"] in leaderboard.to_csv(board)
