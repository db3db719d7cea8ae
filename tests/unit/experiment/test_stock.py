"""What of a strategy is not as its name stands for: told in the run's record, and by the board."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gfcr import config as configs
from gfcr import strategy
from gfcr.experiment.resolved import resolve
from gfcr.experiment.stock import unlike_stock, with_order
from gfcr.leaderboard.design import differences
from gfcr.strategy import Strategy
from gfcr.sweep.composed import written
from gfcr.tracking.names import NOT_OURS, UNLIKE, spec_hash
from tests.cases import over
from tests.records import record

DAPO = strategy.load("dapo")


def unlike(built: Strategy, name: str | None = None) -> str:
    return unlike_stock(with_order(built.spec()), name=name or built.name)


@over("name", strategy.names())
def test_a_stock_strategy_has_nothing_to_tell(name: str) -> None:
    assert unlike(strategy.load(name)) == ""


def test_all_that_differs_is_told_part_by_part() -> None:
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
    assert unlike(odd) == (
        "controls.refill removed, drafter added "
        "(draft_length=3, longest=4, name=ngram, shortest=2), filters.advantage.epsilon=0.5 "
        "(stock 0.0001), filters.advantage.kind=rloo (stock grpo), filters.z added (min_std=0.5, "
        "name=zero_variance), group_size=2 (stock 8), loss.clip_high=0.9 (stock 0.28)"
    )
    stop = unlike(strategy.load("multi_turn", generate={"stop": ","}))
    assert stop == "generate.stop=, (stock =)"
    nested = strategy.load("grpo", drafter={"name": "auto", "drafter": {"name": "ngram"}})
    assert "drafter added (" in unlike(nested) and "drafter.name=ngram" in unlike(nested)


def test_another_order_of_the_stock_parts_is_told() -> None:
    back = replace(DAPO, filters=dict(reversed([*DAPO.filters.items()])))
    assert unlike(back) == f"order added (filters={json.dumps([*back.filters])})"
    fewer = replace(DAPO, filters=dict(list(DAPO.filters.items())[:2]))
    assert "removed" in unlike(fewer) and "order" not in unlike(fewer)


def test_parts_in_another_order_are_another_run() -> None:
    def run(strategy: Any) -> tuple[str, str, str]:
        made = resolve(configs.experiment({"engine": "fake", "strategy": strategy}, where="x"))
        return made.run_id, spec_hash(made.spec), made.card().tags.get(UNLIKE, "")

    a, b = {"a": {"name": "truncation_gate"}}, {"b": {"name": "zero_variance"}}
    one, other = (run({"name": "grpo", "filters": filters}) for filters in (a | b, b | a))
    assert all(x != y for x, y in zip(one, other, strict=True))
    assert 'order added (filters=["advantage", "b", "a"])' in other[2] and "order" not in one[2]
    for names in (["b"], ["advantage", "b", "a"]):  # the others stay as they were
        mine = {"filters": a | b, "order": {"filters": names}}
        assert (run({"name": "grpo", **mine})[:2] == other[:2]) == (len(names) == 3)
    back = replace(DAPO, filters=dict(reversed([*DAPO.filters.items()])))
    of_python = [run(written({"strategy": it}, at="x")["strategy"])[:2] for it in (DAPO, back)]
    assert of_python[0] == run({"name": "dapo"})[:2] != of_python[1]


def test_a_strategy_that_is_not_gfcr_s_is_called_that(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text("from gfcr.strategy import *\ndef mine() -> Strategy: return load('dapo')\n")
    assert unlike(DAPO, name=f"{own}:mine") == NOT_OURS


def test_the_board_tells_of_the_baseline_first_then_of_the_others_by_name() -> None:
    def ran(arm: str, unlike: str, name: str = "dapo") -> list[Any]:
        return [record(arm, params={"strategy.name": name}, tags={UNLIKE: unlike})]

    arms = {arm: ran(arm, "group_size=2 (stock 8)") for arm in "cab"}
    arms["d"], arms["e"] = ran("d", NOT_OURS, name="my.py:mine"), [record("e")]
    assert differences(arms, baseline="b") == [
        *(f"{arm} is not stock dapo: group_size=2 (stock 8)." for arm in "bac"),
        "d: its strategy is not gfcr's: my.py:mine.",
    ]
