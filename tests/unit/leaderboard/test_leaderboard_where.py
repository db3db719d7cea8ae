"""Filter expressions on runs and on rows."""

from dataclasses import replace

from gfcr import leaderboard
from tests.cases import over
from tests.studies import arm

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
        ("not strategy.filters.zero_variance", {"grpo"}),
        ("strategy.filters.zero_variance.min_std >= 0.1", {"long"}),
        ("0.6 < score < 0.75", {"dapo"}),
        ("wall_s == 60 and rank != 1", {"dapo", "grpo"}),
        ("unscorable == 0 and score_low > 0.5 and not p_adjusted < 1", {"dapo", "long"}),
        ("gfcr.version.vllm=1.0", {"grpo", "dapo", "long"}),
    ],
)
def test_an_expression_keeps_the_arms_it_is_true_of(where, kept):
    assert arms(where) == kept


def test_the_baseline_stays_and_verdicts_are_those_of_the_whole_table():
    whole = leaderboard.rank(runs(), baseline="grpo")
    part = leaderboard.rank(runs(), baseline="grpo", where=["score > 0.75"])
    assert [row.arm for row in part.rows] == ["long", "grpo"]
    assert repr(part.rows[0]) == repr(whole.rows[0])
