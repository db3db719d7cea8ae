"""YAML: what is written is read as the same values, and read as written."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.control.refill import Refill
from gfcr.errors import ConfigError
from gfcr.filter.soft_overlong import SoftOverlong
from gfcr.types import Loss, Sampling
from gfcr.values import reading
from tests.cases import over

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30),
    st.sampled_from(["1e-9", "no", "on", "012", "1:30", "0x1F", "null", "~", "<<", "5.", ".5"]),
)
VALUES = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9),
    st.recursive(SCALARS, lambda v: st.lists(v) | st.dictionaries(st.text("abc"), v), max_leaves=9),
)


@given(VALUES.filter(lambda v: "<<" not in str(v.keys())))
def test_what_is_written_is_read(values: dict[str, Any]) -> None:
    assert reading.parse(reading.write(values), where="t") == values


@given(st.text("a #:'\"{\t\n\r\x85\u2028\u2029😀", max_size=6))
def test_what_ends_a_line_is_read_and_fits_in_one(text: str) -> None:
    values = {"k": [text, {"x": text}]}
    assert reading.parse(reading.write(values), where="t") == values
    line = reading.inline(values)
    assert reading.parse(line, where="t") == values and line.splitlines() == [line]


def test_values_are_read_as_written() -> None:
    text = "a: 1e-9\nb: no\nc: 012\nd: 1:30\ne: 0x1F\nf: 1_000\n4: x\non: true\ng:\n"
    assert reading.parse(text, where="t") == {
        **{"a": 1e-9, "b": "no", "c": "012", "d": "1:30", "e": "0x1F", "f": "1_000"},
        **{"4": "x", "on": True, "g": None},
    }


def test_an_interpolation_within_braces_is_to_be_quoted() -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)not valid YAML: .*; within braces.*`\$\{\.\.\.\}` is quoted"
    ):
        reading.parse("a: {b: ${c}}\n", where="t")
    assert reading.parse("a: {b: '${c}'}\nc: ${a}\n", where="t")["c"] == "${a}"


@over(
    ("make", "values", "message"),
    [
        (Loss, {"off_policy": "icepop"}, r"Loss\.off_policy='icepop' .* 'none' or"),
        (Loss, {"clip_low": math.nan}, r"Loss\.clip_low=nan"),
        (Refill, {"max_rounds": -1}, r"Refill\.max_rounds=-1 .* an integer from 1 to"),
        (Refill, {"max_rounds": 10**5000}, r"Refill\.max_rounds=a int too large"),
        (Refill, {"max_rounds": True}, r"Refill\.max_rounds=True"),
        (SoftOverlong, {"penalty": -1.0}, r"SoftOverlong\.penalty=-1\.0"),
        (Sampling, {"temperature": math.inf}, r"Sampling\.temperature=inf .* a number from 0"),
        (Sampling, {"max_tokens": 1.0}, r"Sampling\.max_tokens=1\.0 .* an integer"),
    ],
)
def test_python_is_refused_what_a_file_is(make: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**values)
