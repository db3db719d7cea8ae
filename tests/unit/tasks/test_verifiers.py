import math
import pickle
import subprocess
import sys
import time
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gfcr.errors import ConfigError
from gfcr.tasks.verifiers.base import load
from gfcr.tasks.verifiers.exact import Exact
from gfcr.tasks.verifiers.math_verify import MathVerify
from gfcr.tasks.verifiers.numeric import Numeric, last_number
from gfcr.tasks.verifiers.regex import Regex
from tests.cases import over


@given(st.text().filter(lambda text: "#" not in text))
def test_every_answer_equals_itself_exactly(answer: str) -> None:
    assert Exact().verify(answer, answer=answer).reward == 1.0
    assert Exact(marker="####").verify(f"because #### {answer}", answer=answer).reward == 1.0


@over(
    ("text", "reward"),
    [("so # 4", 1.0), ("# 5 # 4", 1.0), ("# 4 # 5", 0.0), ("4", 0.0), ("#4 ", 1.0), ("", 0.0)],
)
def test_exact_reads_what_follows_the_last_marker(text: str, reward: float) -> None:
    for answer in ("4", "2 + 2 # 4"):
        assert Exact(marker="#").verify(text, answer=answer).reward == reward


def test_case_counts_unless_told_otherwise() -> None:
    assert Exact().verify("Yes", answer="yes").reward == 0.0
    assert Exact(ignore_case=True).verify("Yes", answer="yes").reward == 1.0
    for each in (Exact(), Regex(pattern="(?s)(.*)")):  # accents are alike however they are spelt
        assert each.verify("Caf\xe9", answer="Cafe\u0301").reward == 1.0
    for pattern, reward in ((r"answer is (\w+)", 0.0), (r"(?i)answer is (\w+)", 1.0)):
        assert Regex(pattern=pattern).verify("The answer is Yes.", answer="yes").reward == reward


@given(st.integers(), st.integers())
def test_a_number_is_read_whatever_surrounds_it(number: int, other: int) -> None:
    assert last_number(f"from {other} it follows that x = {number}.") == number
    assert last_number(f"{number:,}") == number


@over(
    ("text", "number"),
    [
        ("3/4", Fraction(3, 4)),
        ("-2e3", -2000),
        ("$1,234.50", Fraction(2469, 2)),
        ("8-3", 3),
        (".5", Fraction(1, 2)),
        ("1,2", 2),
        ("1/0", None),
        ("none", None),
        ("1e99999999", None),
        *(("½", Fraction(1, 2)), ("2½", Fraction(5, 2)), ("-1 ½", Fraction(-3, 2)), ("½%", 0.5)),
        *(("5x", None), ("x = 2 or 3xy", None), ("5 x 10^3", 5000), ("5 boxes", 5), ("5 mm", 5)),
        *(("9.8 m s^{-2}", Fraction(49, 5)), ("3 m^10", 3), ("2 \\text{ s}^{-1}", 2)),
    ],
)
def test_forms_of_numbers(text: str, number: Fraction | int | None) -> None:
    assert last_number(text) == number


@given(st.floats(-1e6, 1e6), st.floats(0, 1e-3))
def test_the_tolerance_is_absolute_below_one_and_relative_above(right: float, step: float) -> None:
    """And relative to an answer that it exceeds: tests/unit/tasks/test_equal_answers.py."""
    assume(right == 0 or abs(right) > 1e-3)
    verifier = Numeric(tolerance=1e-3)
    near = right + step * max(1.0, abs(right)) * 0.999
    far = right + 1.01e-3 * max(1.0, abs(right)) + 1e-9
    assert verifier.verify(repr(near), answer=repr(right)).reward == 1.0
    assert verifier.verify(repr(far), answer=repr(right)).reward == 0.0


@over("verifier", [Exact(), Exact(ignore_case=True), Regex(pattern="(.+)")])
def test_an_answer_of_a_file_with_line_ends_of_windows_equals_the_same_lines(
    verifier: Exact | Regex,
) -> None:
    for text, reward in (("a\nb", 1.0), ("a\r\nb\r\n", 1.0), ("a b", 0.0)):
        assert verifier.verify(text, answer="a\r\nb").reward == reward


@over(
    ("text", "number"),
    [
        (f"5 {'1' * 5000}/{'3' * 5000}", None),
        (rf"5 \frac{{{'1' * 5000}}}{{2}}", None),
        (rf"5, \frac{{{'1' * 5000}}}{{2}}", 5),
        (r"3 \frac{1}{2}", Fraction(7, 2)),
        (r"12\frac34", Fraction(51, 4)),
    ],
)
def test_numbers_of_too_many_digits_are_left_out(text: str, number: Fraction | int | None) -> None:
    assert last_number(text) == number


def test_a_long_run_of_digits_is_read_in_no_time() -> None:
    began = time.process_time()
    assert last_number("1" * 40_000) is None
    assert time.process_time() - began < 1


def test_a_reference_without_a_number_is_unscorable_and_never_zero() -> None:
    verdict = Numeric().verify("4", answer="four")
    assert verdict.reward is None
    assert "four" in (verdict.error or "")
    assert Numeric().check("four")


@over("tolerance", [-1.0, math.inf, math.nan])
def test_a_tolerance_must_be_a_finite_number(tolerance: float) -> None:
    with pytest.raises(ConfigError, match=r"Numeric\.tolerance"):
        Numeric(tolerance=tolerance)


def test_regex_compares_the_last_match() -> None:
    verifier = Regex(pattern="<answer>(.*?)</answer>")
    assert verifier.verify("<answer>3</answer> no <answer>\n4 </answer>", answer="4").reward == 1.0
    assert verifier.verify("<answer>4</answer> no <answer>3</answer>", answer="4").reward == 0.0
    assert verifier.verify("4", answer="4").reward == 0.0
    for pattern in (r"([^\n]*)$", r"(\d*)$", r"(?=(\d)\Z)"):
        assert Regex(pattern=pattern).verify("so\n4", answer="4").reward == 1.0


@over(("pattern", "said"), [("(", "no regular expression"), ("a", "no group")])
def test_a_pattern_must_have_a_group(pattern: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Regex(pattern=pattern)


@over(
    ("text", "answer", "reward"),
    [
        (r"so $\frac{1}{2}$", "0.5", 1.0),
        (r"\boxed{2x + x}", "3x", 1.0),
        ("the answer is 7", "8", 0.0),
        ("no idea", "8", 0.0),
        (r"$\frac{1}{$", "8", 0.0),
    ],
)
def test_math_verify_equates_expressions(text: str, answer: str, reward: float) -> None:
    assert MathVerify().verify(text, answer=answer).reward == reward


def test_a_verifier_is_loaded_by_name_with_strict_options() -> None:
    made = load("numeric", options={"tolerance": 0.5}, where="dataset.verifier")
    assert made == Numeric(tolerance=0.5)
    with pytest.raises(ConfigError, match="Did you mean 'numeric'"):
        load("numerc", options={}, where="dataset.verifier")
    with pytest.raises(ConfigError, match="Did you mean 'tolerance'"):
        load("numeric", options={"tolerence": 0.5}, where="dataset.verifier")


def test_the_library_is_imported_where_the_verifier_arrives() -> None:
    held = f"pickle.loads({pickle.dumps(MathVerify(precision=4))!r})"
    words = f"import pickle, sys; print({held}.precision, 'math_verify' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout == "4 True\n"
