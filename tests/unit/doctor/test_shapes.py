"""The figures and the override that rules are made of."""

from collections.abc import Sequence
from typing import Any

from gfcr.doctor.history import History
from gfcr.doctor.rule import Figure, Rule
from gfcr.doctor.shapes import kept, largest, mean, rest, scaled
from tests.cases import over

FELL = {"x": (4.0, 2.0), "y": (8.0, 8.0), "nought": (0.0, 2.0)}
"""Metrics of a run: first window, last window."""


def history(**metrics: Sequence[float]) -> History:
    updates = [window for window in (0, 1) for _ in range(5)]
    return History(
        (step, {name: values[window] for name, values in metrics.items()})
        for step, window in enumerate(updates, start=1)
    )


@over(
    ("figure", "expected"),
    [
        (mean("x"), 2.0),
        (mean("x", over="y"), 0.25),
        (mean("x", over="gone"), None),
        (rest(mean("x", over="y")), 0.75),
        (rest(mean("gone")), None),
        (kept("x"), 0.5),
        (kept("x", floor=1.0), 1 / 3),
        (kept("x", floor=4.0), None),
        (kept("nought"), None),
        (kept("gone"), None),
        (largest(mean("gone"), mean("x"), mean("y")), 8.0),
        (largest(mean("gone")), None),
    ],
)
def test_a_figure_is_of_the_windows_and_none_where_they_do_not_tell(
    figure: Figure, expected: float | None
) -> None:
    assert figure(history(**FELL)) == expected
    assert figure(History([])) is None


@over(
    ("setting", "by", "spec", "expected"),
    [
        ("prompts", 2, {"prompts": 8}, "prompts=16"),
        ("sampling.max_tokens", 2, {"sampling": {"max_tokens": 5_000_000}}, "=10000000"),
        ("trainer.learning_rate", 0.5, {"trainer": {"learning_rate": 3e-5}}, "=1.5e-05"),
        ("a.b.c", 2, {"a": {"b": {"c": 5}}}, "=10"),
        ("a.b.c", 0.5, {"a": {"b": {"c": 5}}}, "=3"),
    ],
)
def test_a_setting_is_scaled_and_a_whole_number_stays_one(
    setting: str, by: float, spec: dict[str, Any], expected: str
) -> None:
    advice = {scaled(setting, by=by): "", (lambda _: ()): "not offered", ("a=1", "b=2"): "both"}
    rule = Rule(
        name="own", cell="C6.2", says="", figure=mean("x"), limit=1.0, metrics=(), advice=advice
    )
    changed, both = rule.levers(spec)
    assert changed.overrides[0].endswith(expected) and changed.overrides[0].startswith(setting)
    assert both.overrides == ("a=1", "b=2") and both.why == "both"
    assert rule.stage == "Control"
    assert scaled("a", by=2, least=4)({"a": 1}) == ("a=4",)


@over("trainer", [{"name": "dry"}, {"learning_rate": {"name": "mine"}}])
def test_a_setting_that_is_no_number_of_the_run_is_not_scaled(trainer: dict[str, Any]) -> None:
    overrides = scaled("trainer.learning_rate", by=0.1)
    assert callable(overrides) and overrides({"trainer": trainer}) == ()
