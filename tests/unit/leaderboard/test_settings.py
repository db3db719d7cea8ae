"""No two arms whose configurations differ look the same."""

from gfcr.leaderboard import rank
from gfcr.leaderboard.design import ABSENT, settings_of
from tests.records import record, sound


def run(arm, seed=0, **params):
    return record(arm, seed, params={"arm": arm, "seed": str(seed), "study": arm, **params})


def test_every_value_in_which_two_arms_differ_is_told_of_all():
    shared = {"prompts": "32", "engine.name": "vllm"}
    found = settings_of(
        {
            "grpo": [run("grpo", **shared, **{"strategy.controls": "{}", "strategy.n": "8"})],
            "dapo": [run("dapo", **shared, **{"strategy.oversample": "1.0", "strategy.n": "8"})],
            "ahead": [run("ahead", **shared, **{"strategy.oversample": "1.5", "strategy.n": "8"})],
        }
    )
    assert found == {
        "grpo": {"strategy.oversample": ABSENT},
        "dapo": {"strategy.oversample": "1.0"},
        "ahead": {"strategy.oversample": "1.5"},
    }
    assert settings_of({"a": [run("a", **shared)], "b": [run("b", **shared)]}) == {"a": {}, "b": {}}
    assert settings_of({}) == {}


def test_values_of_seeds_that_differ_are_all_told():
    mixed = [run("a", 0, prompts="16"), run("a", 1, prompts="8"), run("a", 2)]
    found = settings_of({"a": mixed, "b": [run("b", prompts="16")]})
    assert found == {"a": {"prompts": " | 16 | 8"}, "b": {"prompts": "16"}}


def test_rows_have_the_settings_of_the_arms_in_the_table_and_their_runs():
    runs = [sound(arm, seed) for arm in ("a", "b") for seed in (0, 1)]
    for each in runs:
        object.__setattr__(each, "params", {"arm": each.arm, "prompts": each.arm * 2, "x": "1"})
    rows = {row.arm: row for row in rank(runs, baseline="a").rows}
    assert rows["a"].settings == {"prompts": "aa"} and rows["b"].settings == {"prompts": "bb"}
    assert rows["b"].run_ids == ("b-0", "b-1")
