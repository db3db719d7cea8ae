"""Which runs and rows a table is about: no seed is chosen by its score."""

import pytest

from gfcr.errors import ConfigError
from gfcr.leaderboard.selection import keep_rows, keep_runs, sort_out
from gfcr.leaderboard.where import Where
from tests.cases import over
from tests.records import record, rowed

RUNS = [
    record(arm, seed, params={"lr": "1" if arm == "b" else "2", "nth": str(seed)})
    for arm in "abc"
    for seed in (0, 1)
]
ARMS = {arm: [run for run in RUNS if run.arm == arm] for arm in "abc"}


def wheres(*texts):
    return [Where(text) for text in texts]


def test_expressions_are_of_rows_where_they_mention_a_result():
    given = wheres("arm == 'a'", "score > 0.5 and arm == 'a'", "seed < 3", "selection_bias")
    assert sort_out(given, runs=RUNS) == ([given[0], given[2]], [given[1], given[3]])


def test_a_name_that_nothing_has_is_refused_unless_there_is_nothing():
    with pytest.raises(ConfigError, match=r"where 'ar == 1': unknown name 'ar'"):
        sort_out(wheres("ar == 1"), runs=RUNS)
    assert sort_out(wheres("ar == 1"), runs=[])[1] == []


@over("runs", [RUNS, []])
def test_seeds_are_not_chosen_by_results(runs):
    with pytest.raises(ConfigError) as error:
        sort_out(wheres("seed < 3", "seed < 3 and score > 0.5"), runs=runs)
    assert str(error.value) == (
        "where 'seed < 3 and score > 0.5': seeds cannot be chosen by results, which are the arm's. "
        "Give two expressions, each with its own --where."
    )


def kept(*texts, baseline="a", runs=RUNS):
    return [run.run_id for run in keep_runs(runs, where=wheres(*texts), baseline=baseline)]


def test_runs_are_kept_for_which_all_expressions_hold_and_the_baseline_s_but_for_its_seeds():
    every = [run.run_id for run in RUNS]
    assert kept() == kept(baseline=None) == every and kept(runs=[]) == []
    assert kept("arm == 'b'") == ["a-0", "a-1", "b-0", "b-1"]
    assert kept("arm == 'b'", baseline=None) == ["b-0", "b-1"]
    assert kept("seed == 1", "lr == 1") == ["a-1", "b-1"]
    assert kept("seed == 1 and lr == 1") == ["a-0", "a-1", "b-1"]
    assert kept(runs=RUNS[:2]) == ["a-0", "a-1"]
    assert kept("arm == 'b'", runs=[]) == []


@over("baseline", ["a", None])
def test_an_expression_that_leaves_no_run_is_refused(baseline):
    with pytest.raises(ConfigError) as error:
        kept("arm == 'z'", "seed == 0", baseline=baseline)
    assert str(error.value) == (
        "--where \"arm == 'z'\" --where 'seed == 0' leaves no run beside the baseline. "
        "`gfcr leaderboard --json` shows what they have."
    )


ROWS = [rowed("a", rank=1), rowed("b", rank=2), rowed("c", rank=3, unscorable=4)]


def left(*texts, baseline="a", rows=ROWS):
    found = keep_rows(rows, where=wheres(*texts), arms=ARMS, baseline=baseline)
    return [row.arm for row in found]


def test_rows_are_kept_for_which_all_expressions_hold_and_the_baseline_s():
    assert left() == ["a", "b", "c"] and left(rows=[]) == []
    assert left("rank == 2") == ["a", "b"] and left("rank == 2", baseline=None) == ["b"]
    assert left("rank > 1", "unscorable == 0") == ["a", "b"]
    assert left("rank > 1 and lr == 2") == ["a", "c"]
    assert left("rank > 1 and nth == 0") == ["a", "b", "c"], "an arm is what its first run is"
    assert left(rows=ROWS[:1]) == ["a"]
    with pytest.raises(ConfigError) as error:
        left("rank == 1")
    assert str(error.value) == (
        "--where 'rank == 1' leaves no arm beside the baseline. `gfcr leaderboard --json` shows "
        "what they have."
    )
