"""What reward functions hand back: numbers in any wrapping, or refused by name, never guessed."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from gfcr.loop.scoring import verify_safely
from gfcr.tasks.base import Task, Verdict
from gfcr.tasks.functions import listed, number
from gfcr.testing import factories as make
from tests.cases import over

ONE = [
    *(True, np.bool_(True), np.float16(1), np.array(True), np.array([[1.0]]), np.int8(1)),
    *({"score": 1.0, "acc": 0}, {"score": True}, {"score": np.float32(1)}, [{"score": 1}], [1.0]),
    *(Decimal(1), Fraction(1, 1), 1),
]
NONE = [
    *("1.0", "", b"1", np.str_("1.0"), np.array(["1.0"]), {"score": "1.0"}, {"reward": 1.0}, {}),
    *(["1"], [], [1.0, 2.0], (1.0, "why"), {1.0}, 1j, float("nan"), 1e39, 10**400, Decimal("NaN")),
]


def scored(value: Any) -> Verdict:
    """Returns what becomes of a value that a function gave for one completion."""

    class Given(make.CoinTask):
        def verify(self, prompt: Any, *, text: str) -> Verdict:
            return Verdict(reward=number(value))

    task: Task = Given()
    return verify_safely(task, make.prompt(), "a")


@over("value", ONE)
def test_a_number_counts_however_it_is_wrapped(value: Any) -> None:
    assert scored(value).reward == 1 and scored(value).error is None


@over("value", NONE)
def test_what_is_no_number_is_unscorable_and_shown(value: Any) -> None:
    verdict = scored(value)
    assert verdict.reward is None and "not a finite number" in (verdict.error or "")


def test_no_score_is_no_error() -> None:
    for value in (None, {"score": None}, [None]):
        assert scored(value) == Verdict(reward=None)


@over("given", [(1, 0), np.array([1, 0]), {"a": 1, "b": 0}.values()])
def test_many_are_in_their_order(given: Any) -> None:
    assert listed(given) == listed(iter(given)) == [1, 0]


@over("given", ["10", b"10", bytearray(b"10"), {0: 1.0}, {0.0, 1.0}, frozenset({1.0}), 1.0, None])
def test_what_has_no_order_or_is_one_text_is_no_list(given: Any) -> None:
    """A set of two rewards would give each to whichever completion it happens to fall on."""
    assert listed(given) is None
