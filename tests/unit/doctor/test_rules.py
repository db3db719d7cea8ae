"""Every rule on logs of real runs: one that has the pathology, and one that has not.

`scripts/doctor.py` recorded them: the experiments of experiments/doctor, and the same with the
lever that the rule names first.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gfcr import config
from gfcr import strategy as strategies
from gfcr.doctor.diagnosis import diagnose, every, figures
from gfcr.doctor.history import History
from gfcr.doctor.levers import fitting
from gfcr.doctor.rule import Lever, Rule
from gfcr.taxonomy import CELLS

RECORDED = Path(__file__).parents[2] / "data" / "doctor"
RULES = {rule.name: rule for rule in every()}
CURED = sorted(f.name.removesuffix("-cured.json") for f in RECORDED.glob("*-cured.json"))


def recorded(name: str) -> tuple[History, Mapping[str, Any]]:
    held = json.loads((RECORDED / f"{name}.json").read_text("utf-8"))
    return History((line["step"], line["metrics"]) for line in held["lines"]), held["spec"]


@pytest.mark.parametrize("name", RULES)
def test_a_run_that_has_the_pathology_is_found_with_levers(name: str) -> None:
    history, spec = recorded(f"{name}-sick")
    found = next(f for f in diagnose(history, spec=spec) if f.rule == name)
    assert found.figure >= found.limit == RULES[name].limit
    assert "{" not in found.says and found.levers
    assert found.levers == fitting(RULES[name].levers(spec), spec=spec)


@pytest.mark.parametrize("name", RULES)
def test_a_run_that_has_not_is_passed_over(name: str) -> None:
    logs = ["healthy", *([f"{name}-cured"] if name in CURED else [])]
    measured = [figures(recorded(log)[0]).get(RULES[name]) for log in logs]
    assert any(figure is not None for figure in measured), "silent for want of a metric"
    assert not any(figure is not None and figure >= RULES[name].limit for figure in measured)


def test_levers_cure() -> None:
    assert len(CURED) >= 4, "scripts/doctor.py keeps the logs of runs that are cured"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules_name_cells_of_the_taxonomy_and_metrics(rule: Rule) -> None:
    assert rule.cell in CELLS
    assert rule.stage in ("Generate", "Filter", "Control", "Replay")
    assert rule.metrics and rule.limit > 0


def test_the_page_says_each_rule_its_cell_and_limit() -> None:
    page = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text("utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    said = {row[1].strip(" `"): (row[2].strip(), row[4].strip()) for row in rows}
    assert said == {name: (r.cell, f"{r.limit:g}") for name, r in RULES.items()}


def test_short_runs_are_not_judged() -> None:
    history, _ = recorded("dead_groups-sick")
    assert not figures(History(history.lines[:5]))


def lever(*overrides: str) -> Lever:
    return Lever(overrides=overrides, why="")


def test_levers_that_a_strategy_refuses_or_has_are_left_out() -> None:
    spec = {"strategy": strategies.load("dapo").spec(), "engine": {"dtype": "float32"}}
    has = lever("strategy.controls.refill={name: refill, oversample: 1.0, max_rounds: 10}")
    refused = lever("strategy.controls.a={name: mopps}", "strategy.controls.b={name: uniform}")
    unknown = lever("strategy.replays.repo.num=1")
    good, other = lever("strategy=greso"), lever("sampling.max_tokens=80")
    same = lever("engine.dtype=float32")
    assert fitting([has, refused, unknown, good, same, other], spec=spec) == (good, other)
    foreign = {"strategy": {**spec["strategy"], "generate": {"name": "gone.py:Gone"}}}
    assert fitting([unknown], spec=foreign) == (unknown,), "what cannot be asked is not judged"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_lever_is_an_override_that_an_experiment_takes(rule: Rule) -> None:
    """Keys that a strategy must have are those of the sick run."""
    _, spec = recorded(f"{rule.name}-sick")
    for each in fitting(rule.levers(spec), spec=spec):
        changes = config.parse_overrides(each.overrides)
        known = {"strategy", "sampling", "trainer", "engine", "task", "prompts"}
        assert set(changes) <= known, each
        config.experiment(config.merge({"study": "x"}, _without_parts(changes)), where="lever")


def _without_parts(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in changes.items() if key not in ("task", "strategy")}
