"""The calculator: exact, total on arithmetic, and nothing but arithmetic."""

import ast
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.generate.tools.base import ToolError
from gfcr.generate.tools.calculator import Calculator
from tests.cases import over
from tests.tools import said

expressions = st.recursive(
    st.integers(0, 999).map(str),
    lambda inner: st.builds("({}{}{})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=8,
)


@given(text=expressions, before=st.sampled_from(["", "3+9=12,", "?", "so: "]))
def test_it_agrees_with_exact_arithmetic(text: str, before: str) -> None:
    expected = eval(compile(ast.parse(text, mode="eval"), "", "eval"))
    assert said(Calculator(), f"{before}{text}") == str(expected)


@over(
    ("text", "result"),
    [
        ("3+9=12,12-4", "8"),
        ("3-9", "-6"),
        ("007+1", "8"),
        ("1/4", "0.25"),
        ("0.1+0.2", "0.3"),
        ("2/6*3", "1"),
        ("--5", "5"),
        ("-5", "-5"),
        ("2*(+5)", "10"),
        ("1+" * 99 + "11", "110"),  # 200 characters
        (" " * 10**5 + "x (1+2)*3 \n", "9"),  # in linear time
        ("1/3", "0.333333"),
    ],
)
def test_values(text: str, result: str) -> None:
    assert said(Calculator(), text) == result


@over("text", ["", "=", "3=", "x", "1/0", "(1+2", "2**9", "7//2", "1 2", "()", f"{'9+' * 100}9"])
def test_what_is_not_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ToolError):
        said(Calculator(), text)


@given(st.text(alphabet="0123456789+-*/.()= ", max_size=40))
def test_any_text_has_a_number_or_is_refused(text: str) -> None:
    try:
        answer = said(Calculator(), text)
    except ToolError:
        return
    Fraction(answer)
