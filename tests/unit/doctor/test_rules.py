"""Every rule on logs of real runs: one that has the pathology, and one that has not.

`scripts/doctor.py` recorded them: the experiments of experiments/doctor, and the same with the
lever that the rule names first. Where a log says how it was `made`, the pipeline was real and the
engine a script: one that has the pathology and one that is `well`.
"""

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr import config
from gfcr.doctor.diagnosis import diagnose, every, figures, treated
from gfcr.doctor.history import History
from gfcr.doctor.levers import fitting
from gfcr.doctor.rule import Lever, Rule
from gfcr.experiment.check import check
from gfcr.experiment.resolved import resolve
from gfcr.taxonomy import CELLS
from gfcr.values.overrides import parse_override
from tests.cases import over

RECORDED = Path(__file__).parents[2] / "data" / "doctor"
SICK = Path(__file__).parents[3] / "experiments" / "doctor"
RULES = {rule.name: rule for rule in every()}
TEN = [(5.0, 0.8), (0.4, 0.8), (0.0, 1.7)]
"""Rewards out of ten, the last two next to nothing, and entropies."""
CURED = sorted(f.name.removesuffix("-cured.json") for f in RECORDED.glob("*-cured.json"))


def recorded(name: str) -> tuple[History, Mapping[str, Any]]:
    held = json.loads((RECORDED / f"{name}.json").read_text("utf-8"))
    return History((line["step"], line["metrics"]) for line in held["lines"]), held["spec"]


@over("name", RULES)
def test_a_run_that_has_the_pathology_is_found_with_levers(name: str) -> None:
    history, spec = recorded(f"{name}-sick")
    untreated = diagnose(history)
    assert not any(f.levers for f in untreated)
    assert [*untreated] == sorted(untreated, key=lambda f: f.figure / f.limit, reverse=True)
    found = next(f for f in treated(untreated, spec=spec) if f.rule == name)
    assert found.figure >= found.limit == RULES[name].limit
    assert "{" not in found.says and found.levers
    assert found.levers == fitting(RULES[name].levers(spec), spec=spec)


@over("name", RULES)
def test_a_run_that_has_not_is_passed_over(name: str) -> None:
    logs = ["healthy", *(f.stem for f in RECORDED.glob(f"{name}-*.json") if "-sick" not in f.stem)]
    measured = [figures(recorded(log)[0]).get(RULES[name]) for log in logs]
    assert any(figure is not None for figure in measured), "silent for want of a metric"
    assert not any(figure is not None and figure >= RULES[name].limit for figure in measured)


def test_levers_cure() -> None:
    assert len(CURED) >= 4, "scripts/doctor.py keeps the logs of runs that are cured"


def test_rules_have_a_name_of_their_own_and_a_sick_run() -> None:
    assert len(RULES) == len(every()), "two rules have the same name"
    assert {f.stem for f in SICK.glob("*.yaml")} == {*RULES, "healthy"}


@over("rule", RULES.values(), ids=RULES)
def test_a_rule_lies_with_the_stage_of_its_cell_and_names_metrics(rule: Rule) -> None:
    tables = importlib.import_module(f"gfcr.doctor.rules.{CELLS[rule.cell].branch.lower()}").RULES
    assert rule in tables and rule.metrics and rule.limit > 0


def test_the_page_says_each_rule_its_cell_and_limit() -> None:
    page = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text("utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    said = {row[1].strip(" `"): (row[2].strip(), row[4].strip()) for row in rows}
    assert said == {name: (r.cell, f"{r.limit:g}") for name, r in RULES.items()}


def test_short_runs_are_not_judged() -> None:
    history, _ = recorded("dead_groups-sick")
    early = {rule.name for rule in figures(History(history.lines[:5]))}
    assert early <= {"policy_jump"}


def test_harder_prompts_are_no_broken_policy() -> None:
    def jumped(**now: float) -> float | None:
        before = {"reward/all": 0.5, "train/entropy": 0.8, "length/all/mean": 8.6}
        after = {**before, "reward/all": 0.0, **now}
        return figures(History([(1, before), (2, after)])).get(RULES["policy_jump"])

    assert jumped() == 0.0, "answered in the same manner"
    assert jumped(**{"train/entropy": 1.3}) == 0.0
    assert jumped(**{"length/all/mean": 24.0}) == 1.0, "as on a pretrained model at 2e-4"
    assert jumped(**{"train/entropy": 0.17}) == 1.0
    assert jumped(**{"train/entropy": 0.17, "reward/all": 0.4}) < RULES["policy_jump"].limit
    marks = [{"reward/all": r, "train/entropy": h, "length/all/mean": 8.6} for r, h in TEN]
    assert figures(History(enumerate(marks))).get(RULES["policy_jump"]) == 0.0


@over("scale", [1.0, 10.0])
def test_a_score_that_wavers_is_not_hacked(scale: float) -> None:
    rng = np.random.default_rng(0)

    def found(scores: Sequence[float], *, answers: int, rise: float = 0.2) -> bool:
        lines = [
            (n, {name: scale * value for name, value in means.items()} | {"heldout/n": held})
            for n, s in enumerate(scores)
            for means in [{"reward/all": 0.4 + rise * n / 20, "heldout/accuracy": s}]
            for held in [0 if np.isnan(s) else answers]
        ]
        return figures(History(lines))[RULES["reward_hacking"]] >= RULES["reward_hacking"].limit

    flat = [rng.binomial(32, 0.5, 20) / 32 for _ in range(200)]
    assert sum(found(scores, answers=32) for scores in flat) <= 10
    assert sum(found(scores, answers=10**6) for scores in flat) > 60, "the best of many is lucky"
    fallen = [0.5] * 10 + [0.1] * 10
    assert found(fallen, answers=32) and not found(fallen, answers=32, rise=0.0)
    for unscored in (0, 4):
        assert found([*fallen[:unscored], np.nan, *fallen[unscored + 1 :]], answers=32)


def test_long_drafts_are_not_wasted_where_several_tokens_are_accepted() -> None:
    def wasted(accepted: float) -> float:
        metrics = {
            "speculation/drafted": 1600.0,
            "speculation/accepted": 100 * accepted,
            "speculation/acceptance_length": 1 + accepted,
        }
        return figures(History((n, metrics) for n in range(5)))[RULES["wasted_drafts"]]

    assert wasted(3.0) == 0.0, "four tokens a pass, of drafts of 16"
    assert wasted(0.5) >= RULES["wasted_drafts"].limit


@over("metric", ["off_policy/share", "off_policy/moved"])
def test_the_engine_is_not_blamed_for_what_another_law_sampled(metric: str) -> None:
    history, _ = recorded("engine_gap-sick")
    moved = History((step, {**metrics, metric: 0.5}) for step, metrics in history.lines)
    assert RULES["engine_gap"] in figures(history)
    assert figures(moved).get(RULES["engine_gap"]) is None


def test_turns_of_an_episode_are_not_awaited_together() -> None:
    history, _ = recorded("straggler_tail-sick")
    turns = {"group/size": 20.0, "group/episodes": 4.0}
    stepwise = History((step, {**metrics, **turns}) for step, metrics in history.lines)
    rule = RULES["straggler_tail"]
    assert figures(stepwise)[rule] < rule.limit <= figures(history)[rule]


def test_what_evaluations_sample_is_not_in_flight_with_a_batch() -> None:
    history, _ = recorded("straggler_tail-sick")
    rule, name = RULES["straggler_tail"], "tokens/generated"
    asked: list[tuple[int, Mapping[str, float]]] = []
    for step, metrics in history.lines:
        if name in metrics:
            more = 9000.0 * step
            asked.append((step, {**metrics, name: metrics[name] + more, "tokens/evaluation": more}))
        else:
            asked.append((step, metrics))
    assert figures(History(asked))[rule] == pytest.approx(figures(history)[rule])


def lever(*overrides: str) -> Lever:
    return Lever(overrides=overrides, why="")


def spec_of(name: str, *overrides: str) -> Mapping[str, Any]:
    return resolve(config.read_experiment(SICK / f"{name}.yaml", overrides=overrides)).spec


def test_levers_that_an_experiment_refuses_or_has_are_left_out() -> None:
    spec = spec_of("dead_groups", "strategy=dapo")
    has = lever("strategy.controls.refill={name: refill, oversample: 1.0, max_rounds: 10}")
    same, smaller = lever("engine.dtype=float32"), lever("strategy.group_size=1")
    twice = lever("strategy.controls.a={name: mopps}", "strategy.controls.b={name: uniform}")
    unknown = [lever("strategy.replays.repo.num=1"), lever("task.answers=2")]
    unfit = lever("trainer.beta=0.1", "strategy.loss.estimator=rloo")
    assert not fitting([has, same, smaller, twice, *unknown, unfit], spec=spec)
    good = [
        lever(o) for o in ("strategy=greso", "sampling.max_tokens=80", "strategy.group_size=16")
    ]
    assert fitting(good, spec=spec) == tuple(good)
    drafts, served = lever("strategy.drafter=das"), lever("strategy.drafter=suffix")
    beside = spec_of("dead_groups", "engine.name=vllm_server")
    assert fitting([drafts, served], spec=beside) == (served,), "no server runs `das`"


@over(
    ("schedule", "offered"),
    [
        (None, set[str]()),
        ({"name": "lag", "updates": 4}, {"schedule.updates=1"}),
        ({"name": "lag", "updates": 1}, set[str]()),
        ({"name": "async", "staleness": 4}, {"schedule.staleness=1"}),
    ],
)
def test_rollouts_that_a_schedule_made_too_old_are_made_younger_by_it(
    schedule: Any, offered: set[str]
) -> None:
    spec = {**spec_of("dead_groups"), **({"schedule": schedule} if schedule else {})}
    levers = fitting(RULES["off_policy_drift"].levers(spec), spec=spec)
    given = {o for lever in levers for o in lever.overrides}
    assert {o for o in given if o.startswith("schedule.")} == offered
    assert {"strategy.correction=truncated", "strategy.loss.off_policy=behaviour"} <= given


def test_levers_go_on_from_what_an_experiment_has() -> None:
    def given(rule: str, *overrides: str) -> set[str]:
        spec = spec_of(rule, *overrides)
        found = fitting(RULES[rule].levers(spec), spec=spec)
        return {o for each in found for o in each.overrides}

    assert "strategy.group_size=64" in given("idle_updates", "strategy.group_size=32")
    assert "trainer.beta=0.2" in given("reward_hacking", "trainer.beta=0.1")
    pool = ("engine={name: pool, size: 4}", "schedule={name: async, staleness: 3}")
    more = given("starved_trainer", *pool)
    assert {"engine.size=8", "schedule={name: async, staleness: 6}"} <= more
    rose = given("starved_trainer", "engine={name: rose, gate: g}")
    assert not any("engine" in o for o in more - {"engine.size=8"} | rose), "they are servers"
    assert "strategy.order.filters=[soft_overlong]" in given("truncation")
    judge = "strategy.controls.judge.judge={name: endpoint, model: m, temperature: 0.7}"
    assert given("judge_flips", judge) >= {"strategy.controls.judge.judge.temperature=0.0"}
    _, spec = recorded("costly_drafts-sick")
    own = spec["strategy"]["drafter"]
    steered, _ = fitting(RULES["costly_drafts"].levers(spec), spec=spec)
    (override,) = map(parse_override, steered.overrides)
    assert override.key == "strategy.drafter" and override.value == {"name": "auto", "drafter": own}
    spec = spec_of("stale_drafts")
    _, taught, _ = fitting(RULES["stale_drafts"].levers(spec), spec=spec)
    (override,) = map(parse_override, taught.overrides)
    assert override.value == {**spec["strategy"]["drafter"], "name": "online"}


def test_a_trainer_in_turn_is_not_starved() -> None:
    in_turn, starved = {"time/step_s": 2.0}, {"time/step_s": 2.0, "time/exposed_s": 1.0}
    found = [
        figures(History((n, line) for n in range(5))).get(RULES["starved_trainer"])
        for line in (in_turn, starved)
    ]
    assert found == [None, 0.5], "in turn, generation is no wait that a schedule was to hide"


def test_levers_of_an_experiment_whose_code_lies_elsewhere_are_not_judged() -> None:
    spec = spec_of("dead_groups")
    gone = {**spec, "strategy": {**spec["strategy"], "generate": {"name": "gone.py:Gone"}}}
    unknown = lever("strategy.replays.repo.num=1")
    assert fitting([unknown], spec=gone) == (unknown,)


@over("rule", RULES.values(), ids=RULES)
def test_every_lever_runs_with_the_sick_experiment(rule: Rule) -> None:
    for each in fitting(rule.levers(spec := spec_of(rule.name)), spec=spec):
        changed = config.read_experiment(SICK / f"{rule.name}.yaml", overrides=each.overrides)
        check(resolve(changed))
