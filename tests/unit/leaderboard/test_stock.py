"""What of a strategy is not as its name stands for, in one sentence."""

from dataclasses import replace

from gfcr import strategy
from gfcr.leaderboard.stock import overridden
from gfcr.tracking.names import flatten
from tests.cases import over
from tests.records import record

DAPO = strategy.load("dapo")


def ran(built, arm="a"):
    """The runs of an arm with the record that a strategy leaves, empty stages without a tag."""
    spec = built.spec()
    order = {stage: "+".join(part["name"] for part in spec[stage].values()) for stage in STAGES}
    tags = {f"gfcr.{stage}": names for stage, names in order.items() if names}
    params = {f"strategy.{key}": value for key, value in flatten(spec).items()}
    return [record(arm, params={"trainer.lr": "1", **params}, tags=tags)]


STAGES = ("filters", "controls", "replays")


def test_a_stock_strategy_is_not_mentioned_and_neither_is_a_run_that_names_none():
    arms = {"a": ran(DAPO), "b": ran(strategy.load("repo"), "b"), "c": [record("c")]}
    assert overridden(arms, baseline="a") == []


def test_all_that_differs_is_told_part_by_part():
    odd = strategy.load(
        "dapo",
        group_size=2,
        controls={"refill": None},
        filters={
            "z": {"name": "zero_variance", "min_std": 0.5},
            "advantage": {"epsilon": 0.5, "kind": "rloo"},
        },
        **{"loss": {"clip_high": 0.9}, "drafter": {"name": "ngram"}},
    )
    arms = {"a": ran(DAPO), "b": ran(odd, "b")}
    assert overridden(arms, baseline="a") == [
        "b is not stock dapo: group_size=2 (stock 8), controls.refill removed, drafter added "
        "(draft_length=3, longest=4, name=ngram, shortest=2), filters.advantage.epsilon=0.5 "
        "(stock 0.0001), filters.advantage.kind=rloo (stock grpo), filters.z added (min_std=0.5, "
        "name=zero_variance), loss.clip_high=0.9 (stock 0.28)."
    ]


def test_the_baseline_is_told_first_then_the_others_by_name():
    arms = {arm: ran(replace(DAPO, group_size=2), arm) for arm in "cab"}
    told = [f"{arm} is not stock dapo: group_size=2 (stock 8)." for arm in "bac"]
    assert overridden(arms, baseline="b") == told
    theirs = [record("d", params={"strategy.name": "os:system"})]
    found = overridden({"a": [record("a")], "b": arms["b"], "d": theirs}, baseline="d")
    assert found == ["d: its strategy is not gfcr's: os:system.", told[0]]


def test_what_a_part_has_in_it_is_told_with_it():
    (run,) = ran(DAPO)
    inner = {"strategy.drafter.inner.name": "ngram", "strategy.drafter.name": "auto"}
    arms = {"a": [replace(run, params={**run.params, **inner})]}
    told = "a is not stock dapo: drafter added (inner.name=ngram, name=auto)."
    assert overridden(arms, baseline="a") == [told]


@over("name", ["dapo"])
def test_another_order_of_the_stock_parts_is_told(name):
    usual = strategy.load(name)
    back = replace(usual, filters=dict(reversed(usual.filters.items())))
    names = ", ".join(part["name"] for part in back.spec()["filters"].values())
    told = f"a is not stock {name}: filters in another order ({names})."
    assert overridden({"a": ran(back)}, baseline="a") == [told]
    fewer = dict(list(back.filters.items())[:2])
    (told,) = overridden({"a": ran(replace(usual, filters=fewer))}, baseline="a")
    assert "removed" in told and "order" not in told
