"""What runs spent until a held-out reward, and how that compares."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks import time_report
from benchmarks.stock_trainer import asked_of, mean_of
from benchmarks.time_to_target import STOCK, Measured, Spent, course, measure, ratio, spent_by
from gfcr.errors import ConfigError
from gfcr.handles import TURNS
from gfcr.sweep import from_values
from gfcr.testing import factories as make
from gfcr.tracking.folder import RunFolder
from tests.cases import over
from tests.launchers import values_of

CURVE = [(0, 0, 0.0, 0.4), (2, 1000, 10.0, 0.5), (4, 2000, 20.0, 0.7), (6, 3000, 30.0, 0.6)]


def spent(seconds: float, *, there: bool = True) -> Spent:
    return Spent(
        there=there, updates=4, tokens=100 * seconds, seconds=seconds, wall_s=99, score=0.7
    )


def measured(arm: str, *seconds: float) -> Measured:
    return Measured(arm=arm, spent={n: spent(s) for n, s in enumerate(seconds)}, failed={})


def test_a_run_is_there_where_the_mean_with_the_next_evaluation_is_too() -> None:
    found = spent_by(CURVE, target=0.64, wall_s=40.0)
    assert (found.there, found.updates, found.tokens, found.seconds) == (True, 4, 2000, 20.0)
    assert found.score == 0.6
    assert not spent_by(CURVE, target=0.7, wall_s=40.0).there, "by luck of one evaluation"


@over(
    ("rewards", "bounds", "mean"),
    [
        ((1.0, None), (-1.0, 1.0), 0.0),
        ((None, None), (-1.0, 1.0), -1.0),
        ((None, None), None, 0.0),
        ((1.0, 0.0, None, None), (-math.inf, 1.0), 0.25),
        ((-2.0, None), None, -2.0),
        ((0.5, 1.0), (0.0, 1.0), 0.75),
    ],
)
def test_what_nobody_could_score_counts_with_stock_trl_as_it_does_here(
    rewards: tuple[float | None, ...], bounds: tuple[float, float] | None, mean: float
) -> None:
    assert mean_of(rewards, bounds=bounds) == mean


def test_stock_trl_is_asked_the_whole_conversation() -> None:
    plain, user = make.prompt(text="1+2="), {"role": "user", "content": "1+2="}
    turns = [{"role": "system", "content": "Sums."}, user]
    assert [asked_of(plain, chat=chat) for chat in (True, False)] == [[user], "1+2="]
    assert asked_of(replace(plain, meta={TURNS: turns}), chat=True) == turns


def test_a_run_that_never_is_has_spent_everything() -> None:
    found = spent_by(CURVE, target=0.71, wall_s=40.0)
    assert (found.there, found.tokens, found.seconds) == (False, 3000, 30.0)


def test_a_target_met_before_training_compares_nothing() -> None:
    with pytest.raises(ConfigError, match="before the first update"):
        spent_by(CURVE, target=0.4, wall_s=40.0)


def test_start_up_and_evaluations_are_left_out(tmp_path: Path) -> None:
    records = RunFolder(tmp_path)
    for update, took in ((0, 5.0), (2, 3.0), (4, 2.0)):
        records.append(update, metrics={"heldout/accuracy": 0.5, "heldout/seconds": took})
        records.append(update + 1, metrics={"reward/all": 0.5})
    records.write_result({"curve": [[0, 0, 8.0, 0.4], [2, 1000, 21.0, 0.5], [4, 2000, 33.0, 0.7]]})
    assert course(tmp_path) == [(0, 0, 0.0, 0.4), (2, 1000, 10.0, 0.5), (4, 2000, 20.0, 0.7)]


def test_the_ratio_is_paired_and_of_logs() -> None:
    arm, stock = measured("das", 10, 30, 22), measured(STOCK, 40, 90, 77)
    found = ratio(arm, over=stock, of=lambda s: s.seconds)
    logs = np.log([10 / 40, 30 / 90, 22 / 77])
    half = stats.t.ppf(0.975, 2) * stats.sem(logs)
    assert found.interval is not None
    assert found.interval.value == pytest.approx(math.exp(logs.mean()))
    assert found.interval.low == pytest.approx(math.exp(logs.mean() - half))
    assert found.interval.high == pytest.approx(math.exp(logs.mean() + half))
    assert not found.bound


def test_an_arm_that_is_not_always_there_has_no_ratio() -> None:
    arm = Measured(arm="a", spent={0: spent(10), 1: spent(20, there=False)}, failed={})
    found = ratio(arm, over=measured(STOCK, 40, 40), of=lambda s: s.seconds)
    assert found.interval is None
    assert found.by_seed == {0: 0.25}


def test_a_failed_run_leaves_no_ratio() -> None:
    arm = Measured(arm="a", spent={0: spent(10), 1: spent(10)}, failed={2: "out of memory"})
    assert ratio(arm, over=measured(STOCK, 40, 40, 40), of=lambda s: s.seconds).interval is None


def test_stock_that_is_not_there_makes_the_ratio_a_bound() -> None:
    stock = Measured(arm=STOCK, spent={0: spent(40), 1: spent(80, there=False)}, failed={})
    found = ratio(measured("a", 10, 20), over=stock, of=lambda s: s.seconds)
    assert found.bound
    assert found.interval is not None and found.interval.value == pytest.approx(0.25)


def test_ratios_that_are_all_equal_have_no_limits() -> None:
    study = from_values({"arms": {"a": {"strategy": "grpo"}}, "seeds": [0, 1]}, where="test")
    found = time_report.data(
        [measured(STOCK, 40, 80), measured("a", 10, 20)], study=study, target=1
    )
    assert found["arms"][0]["seconds_ratio"]["low"] is None
    assert "| 0.25 |" in time_report.text(found)[1].markdown()


def test_a_ratio_of_one_seed_has_no_limits() -> None:
    study = from_values({"arms": {"a": {"strategy": "grpo"}}, "seeds": [0]}, where="test")
    found = time_report.data([measured(STOCK, 40), measured("a", 10)], study=study, target=1)
    words = "\n".join(map(str, time_report.text(found)))
    assert "best: a, 0.25 of the time" in words and not found["reached_goal"]
    assert "| 0.25 |" in time_report.text(found)[1].markdown()


def test_the_best_arm_is_named() -> None:
    study = from_values(
        {
            "arms": {"slow": {"strategy": "grpo"}, "fast": {"strategy": "dapo"}},
            "study": "s",
            "seeds": [0, 1],
        },
        where="test",
    )
    runs = [measured(STOCK, 100, 100), measured("slow", 90, 110), measured("fast", 20, 24)]
    found = time_report.data(runs, study=study, target=0.7)
    assert found["best"] == "fast"
    assert not found["reached_goal"] and not found["enough"], "two seeds reach no goal"
    assert found["arms"][1]["seconds_ratio"]["value"] == pytest.approx(math.sqrt(0.2 * 0.24))
    words = "\n".join(map(str, time_report.text(found)))
    assert "best: fast, 0.22 of the time (goal 0.25)" in words
    assert "2 seeds: 5 or more are needed" in words


def test_a_goal_is_reached_by_the_whole_interval() -> None:
    values = {"arms": {"a": {"strategy": "grpo"}}, "seeds": [*range(5)]}
    study, stock = from_values(values, where="test"), measured(STOCK, *[100] * 5)
    for seconds, there in (((20, 21, 22, 21, 20), True), ((5, 40, 10, 60, 20), False)):
        found = time_report.data([stock, measured("a", *seconds)], study=study, target=0.7)
        assert found["arms"][0]["seconds_ratio"]["value"] < found["goal"]
        assert found["reached_goal"] == there


def test_a_study_that_stock_trl_cannot_be_compared_on_is_refused_before_anything_runs(
    tmp_path: Path,
) -> None:
    values = values_of(tmp_path, arms={"a": {"strategy": "grpo"}}, seeds=[0])
    said: list[str] = []
    with pytest.raises(ConfigError, match="not those of arm a"):
        measure(from_values(values, where="t"), target=0.9, say=said.append)
    own, stops = {"max_tokens": 9}, {"max_tokens": 9, "stop": [","]}
    data = {"name": "dataset", "path": "q.jsonl", "system": "Sums."}
    for told, sampling, evaluation, more in (
        ("two questions", {"max_tokens": 8}, {"sampling": own}, {}),
        ("no stops", stops, {"sampling": stops}, {}),
        ("no stops", own, {"sampling": own, "generate": {"name": "multi_turn"}}, {}),
        ("task.system='Sums.'", own, {"sampling": own}, {"task": data}),
    ):
        evaluation = {"samples": 1, **evaluation}
        asked = {**values, "engine": "vllm", "trainer": "trl", "sampling": sampling, **more}
        with pytest.raises(ConfigError, match=told):
            study = from_values({**asked, "evaluation": evaluation}, where="t")
            measure(study, target=0.9, say=said.append)
    assert not said and not [*tmp_path.iterdir()]
