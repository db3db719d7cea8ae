"""Every figure of a row has one name, in expressions, in CSV and in JSON."""

import json
from dataclasses import replace
from math import nan

from gfcr.leaderboard.figures import RESULTS, figures_of, to_dict
from gfcr.leaderboard.rows import Pareto, Shift, ToTarget
from tests.records import COST, board, compared_by, rowed

BIAS = {
    "length": Shift(generated=1.0, trained=2.0, p_value=0.2),
    "difficulty": Shift(generated=0.1, trained=0.2, p_value=0.01),
}
ROW = rowed(
    "b",
    **{"rank": 2, "cost": replace(COST, rollout_tokens=1500.0, wall_s=61.0), "bias": BIAS},
    **{"versus": compared_by(0.3), "pareto": Pareto(tokens=True, seconds=True)},
    to_target=ToTarget(reached=2, runs=3, tokens=700.0, seconds=30.0, updates=4.0),
)


def test_the_names_of_results_are_those_of_a_row_s_figures():
    found = figures_of(ROW)
    assert {*found} == RESULTS
    told = {
        **{"rank": 2, "seeds": 2, "tokens": 1500.0, "delta": 0.3, "p_adjusted": 0.04},
        **{"verdict": "better", "front": "tokens seconds", "bias": "difficulty"},
        **{"selection_bias": True, "tokens_to_target": 700.0, "detectable": 0.07},
        "reached_target": "2/3",
    }
    assert {name: found[name] for name in told} == told


def test_a_figure_that_a_row_has_not_is_none():
    found = figures_of(rowed("a", bias={"length": BIAS["length"]}))
    told = ("delta", "verdict", "p_adjusted", "tokens_to_target", "reached_target", "rank")
    assert [found[name] for name in told] == [None] * 6
    assert (found["front"], found["bias"], found["selection_bias"]) == ("", "", False)
    half = figures_of(replace(ROW, pareto=Pareto(tokens=False, seconds=True)))
    assert half["front"] == "seconds"


def test_a_table_as_data_has_each_row_s_difference_and_what_scripts_read():
    whole = board(ROW, rowed("a"), rowed("c"), baseline="a", target=nan)
    data = to_dict(whole)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["baseline"], data["target"], data["study"]) == ("a", None, "study")
    row, base, other = data["rows"]
    assert row["delta"] == {
        **{"value": 0.3, "low": 0.3 - 0.1, "high": 0.5, "inner_low": 0.3 - 0.01},
        **{"inner_high": 0.3 + 0.02, "p_value": 0.03, "p_adjusted": 0.04, "detectable": 0.07},
        **{"improves": 0.9, "pairs": 5},
    }
    assert (row["verdict"], row["tokens"], row["wall_s"]) == ("better", 1500.0, 61.0)
    assert {kind: one["significant"] for kind, one in row["bias"].items()} == {
        "length": False,
        "difficulty": True,
    }
    assert (base["verdict"], other["verdict"], base["tokens"]) == ("baseline", None, None)
    assert "versus" not in row and row["score"]["value"] == 0.5 and row["arm"] == "b"
