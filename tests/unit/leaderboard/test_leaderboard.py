"""From runs to a table that ranks, judges and renders them.

Why a run is left out, what a figure is of, and what corrects a verdict is tried where it is
decided: in the other files of this folder.
"""

import csv
import io
import json

import pytest
from rich.console import Console

from gfcr import leaderboard
from tests.cases import over
from tests.studies import arm, only, run


def test_rows_are_ranked_and_judged_against_the_baseline():
    runs = [
        *arm("grpo", accuracy=0.5),
        *arm("dapo", accuracy=0.7),
        *arm("bad", accuracy=0.3),
        *arm("same", accuracy=0.5, spread=0.002),
    ]
    board = leaderboard.rank(runs, baseline="grpo", margin=0.12)
    assert board.rows[0].arm == "dapo"
    assert board.rows[-1].arm == "bad"
    assert only(board, "dapo").versus.verdict == "better"
    assert only(board, "bad").versus.verdict == "worse"
    assert only(board, "same").versus.verdict == "equivalent"
    assert only(board, "grpo").versus is None
    assert only(board, "dapo").versus.p_adjusted >= only(board, "dapo").versus.comparison.p_value


def test_the_order_of_runs_does_not_matter():
    runs = [*arm("grpo", accuracy=0.5), *arm("dapo", accuracy=0.55)]
    there = json.dumps(leaderboard.to_dict(leaderboard.rank(runs, baseline="grpo")))
    back = json.dumps(leaderboard.to_dict(leaderboard.rank(runs[::-1], baseline="grpo")))
    assert there == back


def test_a_run_that_may_not_be_averaged_changes_no_score_and_takes_the_verdict_away():
    runs = [*arm("grpo", accuracy=0.5), *arm("dapo", accuracy=0.6)]
    clean = leaderboard.rank(runs, baseline="grpo")
    board = leaderboard.rank([*runs, run("dapo", 9, status="failed")], baseline="grpo")
    (excluded,) = board.excluded
    assert (excluded.seed, "failed" in excluded.reason) == (9, True)
    assert {r.arm: r.score for r in board.rows} == {r.arm: r.score for r in clean.rows}
    dapo, was = only(board, "dapo"), only(clean, "dapo")
    assert (dapo.rank, dapo.versus.verdict, was.rank) == (None, "inconclusive", 1)
    assert "dapo has 5 of 6 seeds, and not 9" in dapo.unranked


def two_seeds(name, *, accuracies, declared):
    return [run(name, s, accuracy=a, reward_range=declared) for s, a in enumerate(accuracies)]


@over("declared", [[0.0, 1.0], None])
def test_intervals_of_shares_stay_within_0_and_1(declared):
    runs = [
        *two_seeds("grpo", accuracies=(0.4, 0.6), declared=declared),
        *two_seeds("dapo", accuracies=(0.65, 0.35), declared=declared),
    ]
    board = leaderboard.rank(runs, baseline="grpo")
    for row in board.rows:
        assert 0 <= row.score.low < row.score.value < row.score.high <= 1
    difference = only(board, "dapo").versus.comparison.difference
    assert (difference.low, difference.high) == (-1, 1)


def test_rewards_that_are_declared_unbounded_are_no_shares():
    runs = two_seeds("grpo", accuracies=(0.4, 0.6), declared=[None, None])
    score = leaderboard.rank(runs).rows[0].score
    assert score.low < 0 and score.high > 1
    assert score.value - score.low == pytest.approx(score.high - score.value)


def test_every_rendering_holds_every_arm_every_reason_and_no_nan():
    failed = run("dapo", 7, status="failed", error="out of memory.")
    runs = [*arm("grpo", accuracy=0.5), run("dapo"), failed]
    board = leaderboard.rank(runs, baseline="grpo")
    data = json.loads(json.dumps(leaderboard.to_dict(board), allow_nan=False))
    assert {row["arm"] for row in data["rows"]} == {"grpo", "dapo"}
    lines = list(csv.DictReader(io.StringIO(leaderboard.to_csv(board))))
    assert {line["arm"]: line["tokens:trained"] for line in lines} == {
        "grpo": "600.0",
        "dapo": "600.0",
    }
    markdown = leaderboard.to_markdown(board)
    assert "Left out: dapo, seed 7 (dapo-7): the run failed: out of memory.\n" in markdown
    assert "Without a rank" in markdown and "one seed: no interval" in markdown
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(leaderboard.to_rich(board))
    for text in (markdown, leaderboard.to_csv(board), console.export_text()):
        assert "grpo" in text and "dapo" in text and "nan" not in text


def test_an_empty_store_renders():
    board = leaderboard.rank([])
    assert leaderboard.to_dict(board)["rows"] == []
    assert leaderboard.to_csv(board).strip() == ""
    assert "| arm |" in leaderboard.to_markdown(board)


def test_the_noise_floor_is_told():
    board = leaderboard.rank(arm("grpo", accuracy=0.5, spread=0.05), baseline="grpo")
    assert board.noise_floor.seeds == 2 and board.noise_floor.typical > 0
    assert "two halves of grpo's seeds" in leaderboard.caption(board)
