"""Where a value of a part, a verifier or a user begins to be no number, no note and no count."""

from fractions import Fraction
from typing import Any

import numpy as np

from gfcr.values.numbers import is_count, is_note, real
from tests.cases import over

NAN, INF = float("nan"), float("inf")
LARGEST = float(np.finfo(np.float32).max)


@over(
    ("value", "number"),
    [
        (-0.5, -0.5),
        (np.bool_(True), 1.0),
        (Fraction(1, 4), 0.25),
        (LARGEST, LARGEST),
        (-LARGEST, -LARGEST),
        (LARGEST * 1.0001, None),
        (-LARGEST * 1.0001, None),
        (NAN, None),
        (10**400, None),
        ("1", None),
        (1j, None),
        (np.ones(1), None),
    ],
)
def test_a_number_is_finite_in_single_precision(value: Any, number: float | None) -> None:
    noted = number is not None or value != value or isinstance(value, str)
    assert real(value) == number and is_note("a", value) == noted


def test_a_note_is_a_text_or_number_by_name_or_not_measured() -> None:
    assert (
        is_note("a", NAN) and is_note("", 0) and is_note("a", "") and is_note("a", np.float32(NAN))
    )
    assert not any([is_note(1, 0.5), is_note(None, NAN), is_note("a", INF), is_note("a", ["b"])])


@over(
    ("value", "least", "right"),
    [
        (1, 1, True),
        (0, 1, False),
        (0, 0, True),
        (-1, 0, False),
        (1_000_000, 1, True),
        (1_000_001, 1, False),
        (np.int64(5), 1, True),
        (True, 1, False),
        (2.0, 1, False),
        ("2", 1, False),
    ],
)
def test_a_count_is_an_integer_to_be_gone_through(value: Any, least: int, right: bool) -> None:
    assert is_count(value, least=least) is right
    assert is_count(value) is bool(right and value != 0)
