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
from tests.cases import over
from tests.certified import certified
from tests.heldout import asked, measured

TAGS = {
    "gfcr.generate": "sample",
    "gfcr.filters": "zero_variance,group_advantage",
    "gfcr.controls": "",
    "gfcr.replays": "",
    "gfcr.task": "chain_sum",
    "gfcr.model": "demo",
    "gfcr.spec_hash": "aaaa",
    "gfcr.commit": "c0ffee",
    "gfcr.code": "decaf",
    "gfcr.version.vllm": "1.0",
}


def run(arm="grpo", seed=0, *, accuracy=0.5, status="finished", tags=None, prompts=40, **result):
    rng = np.random.default_rng([seed, prompts])
    per_prompt = {f"p{i}": accuracy + float(x) for i, x in enumerate(rng.normal(0, 0.1, prompts))}
    after = measured(per_prompt) if prompts else {**measured({}), "accuracy": accuracy}
    mean = after["accuracy"]
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
                "asked": asked(prompts),
                "before": measured(dict.fromkeys(per_prompt, 0.3)),
                "after": after,
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


def planned(record, *, baseline):
    """A run whose study named its baseline before it began."""
    return replace(record, tags={**record.tags, "gfcr.baseline": baseline})


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
    board = leaderboard.rank(runs, baseline="grpo", margin=0.12)
    assert board.rows[0].arm == "dapo"
    assert board.rows[-1].arm == "bad"
    assert only(board, "dapo").versus.verdict == "better"
    assert only(board, "bad").versus.verdict == "worse"
    assert only(board, "same").versus.verdict == "equivalent"
    assert only(board, "grpo").versus is None
    assert only(board, "dapo").versus.p_adjusted >= only(board, "dapo").versus.comparison.p_value


def test_arms_stopped_early_count_among_the_comparisons():
    runs = [*arm("grpo", accuracy=0.5, spread=0.03), *arm("dapo", accuracy=0.55, spread=0.03)]
    stopped = [r for n in range(3) for r in arm(f"s{n}", accuracy=0.4, status="stopped")]
    runs, stopped = ([planned(r, baseline="grpo") for r in some] for some in (runs, stopped))
    alone = only(leaderboard.rank(runs, baseline="grpo"), "dapo").versus
    board = leaderboard.rank([*runs, *stopped], baseline="grpo")
    beside = only(board, "dapo").versus
    assert 0 < alone.p_adjusted == alone.comparison.p_value < 0.2
    assert beside.p_adjusted == pytest.approx(min(1, 4 * alone.p_adjusted))
    assert {e.arm for e in board.excluded} == {"s0", "s1", "s2"} and len(board.rows) == 2
    assert "stopped early" in board.excluded[0].reason


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
    assert math.isnan(row.score.iqm_low)
    assert row.rank is None and "one seed" in row.unranked
    assert row.versus.verdict == "inconclusive"
    assert "one seed: no interval, no verdict" in row.notes


@over(
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
    assert {r.arm: r.score for r in board.rows} == {r.arm: r.score for r in clean.rows}
    # A seed that the arm has tried and that is not among its scores takes the verdict away.
    if excluded.seed == 9:
        dapo, was = only(board, "dapo"), only(clean, "dapo")
        assert (dapo.rank, dapo.versus.verdict, was.rank) == (None, "inconclusive", 1)
        assert "dapo has 5 of 6 seeds, and not 9" in dapo.unranked
    assert only(board, "grpo").versus is only(clean, "grpo").versus is None


def test_the_task_of_a_named_baseline_is_the_one_that_counts():
    other = arm("dapo", accuracy=0.6, tags={"gfcr.task": "gsm8k"})
    board = leaderboard.rank([*other, *arm("grpo", accuracy=0.5, seeds=2)], baseline="grpo")
    assert [row.arm for row in board.rows] == ["grpo"]
    assert len(board.excluded) == 5


def test_unequal_budgets_are_shown_but_not_judged():
    long = arm(
        "long", accuracy=0.9, updates=80, wall_s=130.0, tokens={"generated": 2000, "trained": 2000}
    )
    row = only(leaderboard.rank([*arm("grpo", accuracy=0.5), *long], baseline="grpo"), "long")
    assert row.versus.verdict == "inconclusive"
    assert any("unequal budgets" in note and "80 for 40 updates" in note for note in row.notes)


def test_equal_tokens_are_an_equal_budget():
    fast = arm("fast", accuracy=0.9, updates=80, wall_s=130.0)
    row = only(leaderboard.rank([*arm("grpo", accuracy=0.5), *fast], baseline="grpo"), "fast")
    assert row.versus.verdict == "better"


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
    assert [r.arm for r in leaderboard.rank(runs, where=["arm == 'dapo'"]).rows] == ["dapo"]
    with pytest.raises(ConfigError, match=r"Did you mean 'trainer\.lr'"):
        leaderboard.rank(runs, where=["trainer.lrr=1"])
    with pytest.raises(ConfigError, match="leaves no run"):
        leaderboard.rank(runs, where=["arm=ppo"])


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


def speculating(name, *, state=None, **kwargs):
    return [certified(r, state) for r in arm(name, **kwargs)]


@over(
    ("state", "shown"),
    [
        (None, "uncertified"),
        ("inconclusive", "inconclusive"),
        ("lossless", "lossless"),
    ],
)
def test_what_speculates_shows_its_certificate_and_is_ranked(state, shown):
    fast = speculating("fast", state=state, accuracy=0.7)
    board = leaderboard.rank([*arm("grpo", accuracy=0.5), *fast], baseline="grpo")
    row = only(board, "fast")
    assert (row.certificate, row.rank, row.versus.verdict) == (shown, 1, "better")
    assert only(board, "grpo").certificate == "none"
    assert (shown == "lossless") == (not any("lossless" in note for note in row.notes))


@over("state", [None, "inconclusive"])
def test_a_tag_that_says_more_than_the_certificate_does_not_count(state):
    fast = speculating("fast", state=state, accuracy=0.7)
    fast[0] = replace(fast[0], tags={**fast[0].tags, "gfcr.certificate": "lossless"})
    board = leaderboard.rank([*arm("grpo", accuracy=0.5), *fast], baseline="grpo")
    assert only(board, "fast").certificate == (state or "uncertified")


def test_a_biased_drafter_is_shown_last_without_rank_verdict_or_front():
    fast = speculating("fast", state="biased", accuracy=0.9)
    runs = [*arm("grpo", accuracy=0.5), *arm("dapo", accuracy=0.7), *fast]
    board = leaderboard.rank(runs, baseline="grpo")
    without = leaderboard.rank(runs[:10], baseline="grpo")
    row = board.rows[-1]
    assert (row.arm, row.rank, row.versus.verdict) == ("fast", None, "inconclusive")
    assert not (row.pareto.tokens or row.pareto.seconds) and "biased" in row.unranked
    # Nor does it cost the others power.
    told = only(without, "dapo")
    assert replace(only(board, "dapo"), settings=told.settings) == told


def test_one_biased_seed_is_enough_and_a_biased_baseline_is_refused():
    mixed = speculating("fast", state="lossless", accuracy=0.7, seeds=4)
    mixed.append(certified(run("fast", 4), "biased"))
    assert only(leaderboard.rank(mixed), "fast").certificate == "biased"
    with pytest.raises(ConfigError, match="another policy"):
        leaderboard.rank([*mixed, *arm("grpo", accuracy=0.5)], baseline="fast")


def test_rows_have_the_fields_that_scripts_read():
    runs = [*arm("grpo", accuracy=0.5), *arm("dapo", accuracy=0.7), run("one")]
    data = leaderboard.to_dict(leaderboard.rank(runs, baseline="grpo"))
    for row in data["rows"]:
        assert row["strategy"] == row["arm"] and row["certificate"] == "none"
        assert row["tokens"] == 800 and row["wall_s"] == 60.0
        assert {"iqm", "low", "high"} <= row["score"].keys()
        assert {"value", "low", "high"} <= row["delta"].keys()
    dapo, grpo, one = data["rows"]
    assert dapo["score"]["low"] < dapo["score"]["iqm"] < dapo["score"]["high"]
    assert 0 < dapo["delta"]["low"] < dapo["delta"]["value"] < dapo["delta"]["high"]
    assert [r["verdict"] for r in data["rows"]] == ["better", "baseline", "inconclusive"]
    assert [r["rank"] for r in data["rows"]] == [1, 2, None]
    assert grpo["delta"]["low"] is one["delta"]["low"] is one["score"]["low"] is None


def test_the_study_s_smallest_effect_of_interest_is_the_margin():
    runs = arm("grpo", accuracy=0.5, tags={"gfcr.minimum_effect": "0.05"})
    assert leaderboard.rank(runs).margin == 0.05
    assert leaderboard.rank(runs, margin=0.1).margin == 0.1
    assert leaderboard.rank([*runs, run("dapo")]).margin == 0.02


def test_an_effect_on_another_metric_is_no_margin_of_the_held_out_score():
    tags = {"gfcr.minimum_effect": "5", "gfcr.metric": "length/all/mean"}
    board = leaderboard.rank(arm("grpo", accuracy=0.5, tags=tags))
    assert board.margin == 0.02
    assert "is length/all/mean" in leaderboard.caption(board)
    assert "own metric" not in leaderboard.caption(leaderboard.rank(arm("grpo", accuracy=0.5)))


def test_time_and_tokens_to_target_count_the_runs_that_never_got_there():
    def curve(*scores):
        return [[10 * i, 100 * i, 5.0 * i, s] for i, s in enumerate(scores)]

    ends = {0: (0.1, 0.6, 0.7), 1: (0.1, 0.2, 0.7), 2: (0.1, 0.2, 0.3)}
    runs = [run("dapo", s, accuracy=e[-1], prompts=0, curve=curve(*e)) for s, e in ends.items()]
    row = leaderboard.rank(runs, target=0.6).rows[0]
    found = row.to_target
    assert (found.reached, found.runs, found.updates) == (2, 3, 20)
    assert (found.tokens, found.seconds) == (200, 10.0)
    never = leaderboard.rank(runs, target=0.65).rows[0].to_target
    assert never.tokens == 200
    assert math.isnan(leaderboard.rank(runs[2:], target=0.65).rows[0].to_target.tokens)


def test_the_target_is_the_baseline_s_score_unless_given():
    runs = [*arm("grpo", accuracy=0.5), *arm("dapo", accuracy=0.7)]
    board = leaderboard.rank(runs, baseline="grpo")
    assert board.target == pytest.approx(only(board, "grpo").score.value)
    assert only(board, "dapo").to_target.reached == 5
    assert leaderboard.rank(runs).rows[0].to_target is None
    assert leaderboard.rank(runs, baseline="grpo", target=0.99).rows[0].to_target.reached == 0


def test_the_pareto_front_holds_whom_nobody_beats_on_both():
    def spending(name, accuracy, tokens, seconds):
        spent = {"generated": tokens, "trained": tokens}
        return arm(name, accuracy=accuracy, spread=1e-4, tokens=spent, wall_s=seconds)

    runs = [
        *spending("cheap", 0.5, 1000, 90.0),
        *spending("dear", 0.7, 4000, 50.0),
        *spending("waste", 0.6, 5000, 60.0),
    ]
    board = leaderboard.rank(runs)
    assert {r.arm for r in board.rows if r.pareto.tokens} == {"cheap", "dear"}
    assert {r.arm for r in board.rows if r.pareto.seconds} == {"dear"}


def with_series(runs, **values):
    """Metrics over updates; a value is a function of seed and update."""
    named = {k.replace("__", "/"): v for k, v in values.items()}
    return [
        replace(
            r, series={n: tuple((u, f(r.seed, u)) for u in range(1, 21)) for n, f in named.items()}
        )
        for r in runs
    ]


def test_training_on_other_rollouts_than_were_generated_is_flagged():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, (5, 21))
    runs = with_series(
        arm("dapo", accuracy=0.6),
        length__all__mean=lambda s, u: 20.0 + u,
        length__trained__mean=lambda s, u: 22.0 + u + noise[s, u],
        reward__all=lambda s, u: 0.5,
        reward__trained=lambda s, u: 0.5 + noise[s, u],
    )
    row = leaderboard.rank(runs).rows[0]
    assert row.bias["length"].significant and not row.bias["difficulty"].significant
    assert row.bias["length"].trained - row.bias["length"].generated == pytest.approx(2, abs=0.02)
    assert any("longer rollouts than it generates" in note for note in row.notes)
    assert leaderboard.to_dict(leaderboard.rank(runs))["rows"][0]["bias"]["length"]["significant"]


def test_training_on_everything_is_no_bias_and_unrecorded_is_unknown():
    same = {
        "length__all__mean": lambda s, u: 20.0 + u,
        "length__trained__mean": lambda s, u: 20 + u,
    }
    row = leaderboard.rank(with_series(arm("grpo", accuracy=0.6), **same)).rows[0]
    assert row.bias["length"].p_value == 1.0 and "difficulty" not in row.bias


def test_the_profile_is_the_share_of_runs_above():
    runs = [run("grpo", s, accuracy=a, prompts=0) for s, a in enumerate((0.2, 0.4, 0.6, 0.8))]
    profile = leaderboard.rank(runs).rows[0].profile
    shares = dict(zip(profile.thresholds, profile.share, strict=True))
    assert (shares[0.1], shares[0.5], shares[0.9]) == (1.0, 0.5, 0.0)
    assert all(
        a <= b <= c for a, b, c in zip(profile.low, profile.share, profile.high, strict=True)
    )


def test_the_noise_floor_is_the_baseline_s_and_is_told():
    board = leaderboard.rank(arm("grpo", accuracy=0.5, spread=0.05), baseline="grpo")
    assert board.noise_floor.seeds == 2 and board.noise_floor.typical > 0
    assert "two halves of grpo's seeds" in leaderboard.caption(board)
    assert leaderboard.rank(arm("grpo", accuracy=0.5, seeds=3), baseline="grpo").noise_floor is None
