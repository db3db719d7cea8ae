"""Windows over what a run has logged."""

from math import inf, nan

import pytest

from gfcr.doctor.history import History


def of(values: list[float], name: str = "x") -> History:
    return History((step, {name: value}) for step, value in enumerate(values, start=1))


def test_a_window_is_a_quarter_and_five_updates_at_least() -> None:
    assert of([9.0] * 4).last("x") is None
    assert of([0.0, 1, 2, 3, 4, 5]).last("x") == 3
    assert of([0.0] * 18 + [1.0] * 6).last("x") == 1
    assert of([0.0] * 9).first("x") is None, "two windows would share updates"
    assert of([1.0] * 5 + [2.0] * 5).first("x") == 1
    assert of([1.0] * 5 + [2.0] * 5).gain("x") == 1
    assert of([1.0] * 9).gain("x") is None


def test_updates_that_did_not_log_a_metric_are_passed_over() -> None:
    lines = [(step, {"x": 1.0} if step % 2 else {"y": 0.0}) for step in range(1, 11)]
    history = History(lines)
    assert history.series("x").steps == [1, 3, 5, 7, 9]
    assert history.last("x") == 1 and history.last("z") is None
    unscored = History([*lines, (11, {"x": nan}), (12, {"x": inf})])
    assert unscored.last("x") == 1 and unscored.series("x").steps == [1, 3, 5, 7, 9]


def test_a_ratio_is_of_updates_where_there_is_something_to_divide_by() -> None:
    lines = [(step, {"a": 3.0, "b": float(step % 2) * 2}) for step in range(1, 11)]
    assert History(lines).series("a", over="b").values == [1.5] * 5
    assert History(lines).last("a", over="c") is None


def test_increments_are_what_each_update_added_to_a_total() -> None:
    found = of([10.0, 15, 15, 40]).increments("x").series("x")
    assert found.values == [10, 5, 0, 25] and found.steps == [1, 2, 3, 4]


def test_updates_are_those_with_rollouts() -> None:
    lines = [(0, {"heldout/accuracy": 0.1}), (1, {"rollouts/all": 8.0})]
    assert History(lines).updates == 1
    assert History(lines).series("heldout/accuracy").values == pytest.approx([0.1])
