import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from gfcr import leaderboard
from gfcr.errors import ConfigError
from gfcr.tracking.records import RunRecord

TAGS = {
    "gfcr.generate": "sample",
    "gfcr.filters": "zero_variance,group_advantage",
    "gfcr.controls": "",
    "gfcr.replay": "",
    "gfcr.task": "chain_sum",
    "gfcr.model": "demo",
    "gfcr.spec_hash": "aaaa",
    "gfcr.commit": "c0ffee",
    "gfcr.version.vllm": "1.0",
}


def run(arm="grpo", seed=0, *, accuracy=0.5, status="finished", tags=None, prompts=40, **result):
    rng = np.random.default_rng([seed, prompts])
    per_prompt = {f"p{i}": accuracy + float(x) for i, x in enumerate(rng.normal(0, 0.1, prompts))}
    mean = float(np.mean(list(per_prompt.values()))) if prompts else accuracy
    return RunRecord(
        run_id=f"{arm}-{seed}",
        study="study",
        arm=arm,
        seed=seed,
        status=status,
        tags={**TAGS, **(tags or {})},
        params={"trainer.lr": "0.001"},
        result={
            "strategy": arm,
            "updates": 40,
            "wall_s": 60.0,
            "r_gen": 0.6,
            "rollout_tokens_per_s": 900.0,
            "heldout": {
                "before": {"accuracy": 0.3},
                "after": {"accuracy": mean, "n": prompts, "per_prompt": per_prompt},
            },
            "tokens": {
                "generated": 1000,
                **{"trained": 600, "rejected:zero_variance": 200, "evaluation": 200},
                "remainder": 0,
            },
            "curve": [[0, 0, 0.0, 0.3], [40, 1000, 60.0, mean]],
            **result,
        },
        series={"engine/forward_passes": ((1, 10.0), (2, 20.0))},
    )


def arm(name, *, accuracy, seeds=5, spread=0.01, **kwargs):
    rng = np.random.default_rng(list(name.encode()))
    luck = rng.normal(0, spread, seeds)
    return [run(name, s, accuracy=accuracy + float(luck[s]), **kwargs) for s in range(seeds)]


def only(board, name):
    (row,) = [row for row in board.rows if row.arm == name]
    return row


def test_rows_are_ranked_and_judged_against_the_baseline():
    runs = [
        *arm("grpo", accuracy=0.5),
        *arm("dapo", accuracy=0.7),
        *arm("bad", accuracy=0.3),
        *arm("same", accuracy=0.5, spread=0.002),
    ]
    board = leaderboard.rank(runs, baseline="grpo", margin=0.05)
    assert board.rows[0].arm == "dapo"
    assert board.rows[-1].arm == "bad"
    assert only(board, "dapo").versus.verdict == "better"
    assert only(board, "bad").versus.verdict == "worse"
    assert only(board, "same").versus.verdict == "equivalent"
    assert only(board, "grpo").versus is None
    assert only(board, "dapo").versus.p_adjusted >= only(board, "dapo").versus.comparison.p_value


def test_the_order_of_runs_does_not_matter():
    runs = [*arm("grpo", accuracy=0.5), *arm("dapo", accuracy=0.55)]
    there = leaderboard.to_json(leaderboard.rank(runs, baseline="grpo"))
    back = leaderboard.to_json(leaderboard.rank(runs[::-1], baseline="grpo"))
    assert there == back


def test_costs_come_from_the_ledger_and_evaluation_is_not_waste():
    cost = leaderboard.rank([run()]).rows[0].cost
    assert cost.generated_tokens == 1000
    assert cost.trained_tokens == 600
    assert cost.wasted_share == pytest.approx(0.25)
    assert cost.forward_passes == 30
    assert cost.ledger == {"trained": 600, "rejected:zero_variance": 200, "evaluation": 200}


def test_one_seed_has_no_interval_and_no_verdict():
    board = leaderboard.rank([run("grpo"), run("dapo", accuracy=0.9)], baseline="grpo")
    row = only(board, "dapo")
    assert math.isnan(row.score.low)
    assert row.iqm is None
    assert row.versus.verdict == "inconclusive"
    assert "one seed: no interval" in row.notes


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (run("dapo", 9, status="failed"), "failed"),
        (run("dapo", 9, status="running"), "killed"),
        (run("dapo", 9, heldout={"after": {"accuracy": math.nan}}), "nan"),
        (run("dapo", 9, updates=20), "20 updates"),
        (run("dapo", 9, tags={"gfcr.task": "gsm8k"}), "gsm8k"),
        (run("dapo", 9, tags={"gfcr.model": "other"}), "other"),
        (run("dapo", 9, tags={"gfcr.spec_hash": "bbbb"}), "bbbb"),
        (replace(run("dapo", 1, accuracy=0.9), run_id="dapo-1-again"), "seed 1"),
    ],
)
def test_a_run_that_may_not_be_averaged_is_left_out_with_its_reason(odd, reason):
    runs = [*arm("grpo", accuracy=0.5), *arm("dapo", accuracy=0.6)]
    clean = leaderboard.rank(runs, baseline="grpo")
    board = leaderboard.rank([*runs, odd], baseline="grpo")
    (excluded,) = board.excluded
    assert reason in excluded.reason
    assert board.rows == clean.rows


def test_the_task_of_a_named_baseline_is_the_one_that_counts():
    other = arm("dapo", accuracy=0.6, tags={"gfcr.task": "gsm8k"})
    board = leaderboard.rank([*other, *arm("grpo", accuracy=0.5, seeds=2)], baseline="grpo")
    assert [row.arm for row in board.rows] == ["grpo"]
    assert len(board.excluded) == 5


def test_unequal_budgets_are_shown_but_not_judged():
    long = arm("long", accuracy=0.9, updates=80, wall_s=130.0, tokens={"generated": 2000})
    row = only(leaderboard.rank([*arm("grpo", accuracy=0.5), *long], baseline="grpo"), "long")
    assert row.versus.verdict == "inconclusive"
    assert any("unequal budgets" in note and "80 for 40 updates" in note for note in row.notes)


def test_equal_tokens_are_an_equal_budget():
    fast = arm("fast", accuracy=0.9, updates=80, wall_s=130.0)
    row = only(leaderboard.rank([*arm("grpo", accuracy=0.5), *fast], baseline="grpo"), "fast")
    assert row.versus.verdict == "better"


def test_the_more_arms_are_compared_the_more_a_difference_must_show():
    base, odd = arm("grpo", accuracy=0.5), arm("weak", accuracy=0.515)
    alone = leaderboard.rank([*base, *odd], baseline="grpo", margin=0.001)
    others = [run for i in range(6) for run in arm("x" * (i + 6), accuracy=0.5)]
    among = leaderboard.rank([*base, *odd, *others], baseline="grpo", margin=0.001)
    assert only(alone, "weak").versus.verdict == "better"
    assert only(among, "weak").versus.verdict == "inconclusive"
    assert any("by chance" in note for note in only(among, "weak").notes)


def test_tokens_in_no_bin_are_noted():
    lost = {"generated": 10, "trained": 8, "remainder": 2}
    assert (
        "2 generated tokens are in no bin" in leaderboard.rank([run(tokens=lost)]).rows[0].notes[1]
    )


def test_seeds_that_are_not_shared_are_not_paired():
    board = leaderboard.rank([run("grpo", 0), run("dapo", 1)], baseline="grpo")
    assert only(board, "dapo").versus is None
    assert "no seed in common with grpo" in only(board, "dapo").notes


def test_an_unknown_baseline_says_what_there_is():
    with pytest.raises(ConfigError, match="Did you mean 'grpo'"):
        leaderboard.rank(arm("grpo", accuracy=0.5), baseline="grop")


def test_a_baseline_that_failed_says_so():
    with pytest.raises(ConfigError, match="the run failed"):
        leaderboard.rank([run("grpo", status="failed"), run("dapo")], baseline="grpo")


def test_where_selects_and_refuses_unknown_names():
    runs = [run("grpo"), run("dapo")]
    assert [r.arm for r in leaderboard.rank(runs, where={"arm": "dapo"}).rows] == ["dapo"]
    with pytest.raises(ConfigError, match=r"Did you mean 'trainer\.lr'"):
        leaderboard.rank(runs, where={"trainer.lrr": "1"})
    with pytest.raises(ConfigError, match="leaves no run"):
        leaderboard.rank(runs, where={"arm": "ppo"})


def test_every_rendering_holds_every_arm_and_no_nan():
    failed = run("dapo", 7, status="failed", error="out of memory")
    runs = [*arm("grpo", accuracy=0.5), run("dapo"), failed]
    board = leaderboard.rank(runs, baseline="grpo")
    data = json.loads(leaderboard.to_json(board))
    assert {row["arm"] for row in data["rows"]} == {"grpo", "dapo"}
    lines = list(csv.DictReader(io.StringIO(leaderboard.to_csv(board))))
    assert {line["arm"]: line["tokens:trained"] for line in lines} == {
        "grpo": "600.0",
        "dapo": "600.0",
    }
    markdown = leaderboard.to_markdown(board)
    assert "Left out: dapo, seed 7 (dapo-7): the run failed: out of memory." in markdown
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(leaderboard.to_rich(board))
    for text in (markdown, leaderboard.to_csv(board), console.export_text()):
        assert "grpo" in text
        assert "dapo" in text
        assert "nan" not in text


def test_an_empty_store_renders():
    board = leaderboard.rank([])
    assert json.loads(leaderboard.to_json(board))["rows"] == []
    assert leaderboard.to_csv(board).strip() == ""
    assert "| arm |" in leaderboard.to_markdown(board)
