"""What each strategy is made of, to the last value, and where each of its knobs goes.

`recipes.yaml` was written from the strategies, whose docstrings give the papers' values. Change
both only where a strategy is to be another one: its name then stands for other numbers on a board.
"""

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gfcr import strategy
from tests.cases import over

RECIPES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("recipes.yaml").read_text())
OTHER: Mapping[str, Any] = {
    **{"scores": "bradley_terry", "calibration": "rank"},
    **{"scope": "global", "budget": "none", "history": "other/runs", "rule": "released"},
    **{"baseline": "group", "metric": "efficiency", "forget": "lag"},
    **{"mode": "positive", "choose": "recent", "stop": ";", "lenience": 1.5},
    **{"pattern": "#", "answer": "(.)", "pool": "other/runs"},
    **{"schedule": "hw", "kind": "dr_grpo"},
    **{"shape": "linear", "marker": ",", "end": 0.5, "only": "even"},
    "separator": "=",
    **{
        "by": "level",
        "where": "completion",
        "when": "always",
        "train": "plain",
        "column": "solution",
    },
    **{"model": "other/model", "template": "{hint}: {prompt}", "ends": ".", "act": "?"},
}
"""Another value of the knobs that hold words, or nothing."""
BESIDE: Mapping[str, Mapping[str, Any]] = {"lenience": {"rule": "released"}}
"""What a knob is only allowed with."""


def knobs(name: str) -> Mapping[str, Any]:
    """Defaults by knob."""
    signature = inspect.signature(strategy.find(name))
    return {knob: p.default for knob, p in signature.parameters.items()}


KNOBS = [(name, knob) for name in strategy.names() for knob in knobs(name)]


def leaves(value: Any, *, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, at=f"{at}.{key}")
    else:
        yield at, value


def other(knob: str, default: Any) -> Any:
    match default:
        case bool():
            return not default
        case int():
            return default - 1 if default > 2 else default + 1
        case float() if isinstance(OTHER.get(knob), float):
            return OTHER[knob]
        case float():
            return default / 2 if 0 < default < 1 else default + 1
        case _:
            return OTHER[knob]


@over("name", strategy.names())
def test_a_strategy_is_what_is_recorded(name: str) -> None:
    assert strategy.load(name).spec() == RECIPES[name]


def test_nothing_is_recorded_of_other_strategies() -> None:
    assert RECIPES.keys() == {*strategy.names()}


@over(("name", "knob"), KNOBS)
def test_a_knob_goes_to_its_part_and_nowhere_else(name: str, knob: str) -> None:
    default, beside = knobs(name)[knob], BESIDE.get(knob, {})
    given = other(knob, default)
    stock = dict(leaves(strategy.load(name, **beside).spec()))
    made = dict(leaves(strategy.load(name, **beside, **{knob: given}).spec()))
    changed = [at for at in made if stock.get(at) != made[at]]
    assert changed and {at for at in stock if at.rpartition(".")[2] == knob} <= {*changed}
    assert all((stock[at], made[at]) == (default, given) for at in changed)
