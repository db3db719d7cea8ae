"""Pairs of an answer and a completion, and whether they are equal: what verifiers must tell apart.

Many are from the issues of Math-Verify (2, 10, 14, 26, 37, 41, 60, 76).
"""

import json
import re
from pathlib import Path

import pytest

from gfcr.errors import TaskError
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.verifiers._expressions import is_simple
from gfcr.tasks.verifiers.math_verify import MathVerify
from gfcr.tasks.verifiers.numeric import Numeric, last_number
from gfcr.testing import factories as make
from tests.cases import over

NUMBERS = [
    ("5", "\u22125", 0),
    ("\u22125", "-5", 1),
    ("-5", "x = \u22125", 1),
    ("-5", "x = \u20135", 1),
    ("2", "8\u22123 = 5", 0),
    ("5", "8\u22123 = 5", 1),
    ("5", "on pages 3\u20135", 1),
    (r"2 \times 10^{-7}", r"$5 \times 10^{-7}$", 0),
    (r"2 \times 10^{-7}", r"$2 \times 10^{-7}$", 1),
    (r"2 \times 10^{-7}", "2e-7", 1),
    ("2e-7", r"2 \cdot 10^{-7}", 1),
    ("2e-7", "2 \u00d7 10\u207b\u2077", 1),
    ("2e-7", "2 \u00d7 10\u207b\u2078", 0),
    ("-7", r"$5 \times 10^{-7}$", 0),
    ("1e-7", "10^{-7}", 1),
    ("4000", "4 x 10^3", 1),
    ("10", "2^{10}", 1),
    ("1000", "1 000", 1),
    ("1000", "1\u2009000", 1),
    ("1000", "1\u00a0000", 1),
    ("1000", "1\u202f000", 1),
    ("1000", "1{,}000", 1),
    ("1000", "1,000", 1),
    ("1000", r"1\,000", 1),
    ("1 000", "1000", 1),
    ("1{,}234{,}567.5", "1,234,567.5", 1),
    ("1 234 567", "1234567", 1),
    ("1000", "1, 000", 0),
    ("0", "1 000", 0),
    ("2", "1,2", 1),
    ("200", "1 2 200", 1),
    ("3/4", r"\frac{3}{4}", 1),
    ("4", r"\frac{3}{4}", 0),
    ("-0.75", r"-\dfrac{3}{4}", 1),
    ("3.5", r"3\frac12", 1),
    ("0.5", r"\tfrac{1}{2}", 1),
    ("42", "#### 42", 1),
    ("42", "It is 42.", 1),
    ("42", "42.0", 1),
    ("42", "", 0),
    ("42", "forty-two", 0),
    ("1/3", "0.333333", 0),
    (".5", "0.5", 1),
    ("1e3", "1000", 1),
    ("-2e3", "-2,000", 1),
]

EXPRESSIONS = [
    (r"9.11 \times 10^{-31}", r"$6.63 \times 10^{-34}$", 0),
    (r"9.11 \times 10^{-31}", r"$9.11 \times 10^{-31}$", 1),
    (r"9.11 \times 10^{-31}", r"9.11 \times 10^{-31}", 1),
    (r"9.11 \times 10^{-31}", "9.11e-31", 1),
    ("9.11e-31", r"\boxed{9.11 \times 10^{-31}}", 1),
    ("9.11e-31", r"\boxed{9.12 \times 10^{-31}}", 0),
    ("1/2006!", "1/2004!", 0),
    ("1/2006!", "$1/2004!$", 0),
    ("1/2006!", "$1/2006!$", 1),
    ("1/2006!", "1/2006!", 1),
    ("1/2006!", r"\boxed{\frac{1}{2006!}}", 1),
    (r"\frac{1}{2^{99}}", r"$\frac{1}{2^{98}}$", 0),
    (r"\frac{1}{2^{99}}", "$2^{-99}$", 1),
    ("12:00", "12:00", 1),
    ("12:00", "It is 12:00.", 1),
    ("12:00", "$1:00$", 0),
    ("12:00", r"\boxed{12:00}", 1),
    ("12:00", "noon", 0),
    ("09:00", "at 9:00", 1),
    ("B", "(B)", 1),
    ("B", "(C)", 0),
    ("(B)", "The answer is B.", 1),
    ("B", r"\boxed{B}", 1),
    ("B", r"\boxed{\text{(B)}}", 1),
    ("B", "B", 1),
    ("B", "b + 1", 0),
    ("B", "(A) is wrong, so (B)", 1),
    ("B", "(B) is wrong, so (A)", 0),
    ("E", "$2.71828$", 0),
    ("B", "**B**", 1),
    ("B", "", 0),
    ("B", "Answer: B", 1),
    ("B", "The answer is (B), for (A) is too small.", 1),
    ("B", "Option A is too small; option B is right.", 1),
    ("B", r"\boxed{(B) 42}", 1),
    ("B", r"\boxed{\textbf{B}}", 1),
    ("B", r"(B) is tempting, but \boxed{C}", 0),
    ("5", "5 m", 1),
    ("1", "1/2006!", 0),
    (r"19, 46, \text{ and } 82", "$21, 36, and 82$", 0),
    (r"\frac{2^{2005}+1}{3 \cdot 2^{2006}}", r"$\frac{1}{3 \cdot 2^{2006}}$", 0),
    (r"1 - \frac{1}{\mathrm{e}}", r"$1 + \frac{1}{\mathrm{e}}$", 0),
    (r"\pm 2021", "$2021$", 0),
    (r"\text{13}", "$13$", 1),
    ("n=2, 3, 4", "$n=1, 2, 3$", 0),
    ("D = (0, 1)", "$D = (0, 1.5)$", 0),
    ("4", r"$4\sqrt{2}$", 0),
    ("73", "is **73**", 1),
    ("0.0833333333333333", r"$\frac{1}{12}$", 1),
    (r"\frac{1}{12}", "$0.083333$", 1),
    (r"(1,\frac{9}{2})", "$(1,4.5)$", 1),
    (r"\frac{x+2}{7}", r"$\frac{x}{7}+\frac{2}{7}$", 1),
    (r"\tan^2(y)+1", r"$\sec^2(y)$", 1),
    ("34x+45y-20z+100=0", "$-34x-45y+20z-100=0$", 1),
    (r"2 \times 10^{-7}", r"$5 \times 10^{-7}$", 0),
    (r"(2 \times 10^{-7}, 1)", r"$(5 \times 10^{-7}, 1)$", 0),
    (r"x = 2 \times 10^{-7}", r"$x = 5 \times 10^{-7}$", 0),
    ("0", "$0.0000001$", 0),
    ("0", "$0$", 1),
    (r"\frac{1}{3000}", "$0.000333333$", 1),
    ("\u22125", "\u22125", 1),
    ("-5", "$\u22125$", 1),
    ("5", "\u22125", 0),
    ("1,000", "1{,}000", 1),
    ("1000", "$1{,}000$", 1),
    ("0.5", r"$\frac12$", 1),
    (r"50\%", "$0.5$", 1),
    (r"33\frac13\%", r"\boxed{33\frac{1}{3}\%}", 1),
    (r"33\frac13\%", r"\boxed{33\%}", 0),
    (r"33\frac13\%", r"\boxed{\frac13}", 1),
    (r"12.5\%", r"\boxed{12\dfrac{1}{2}\%}", 1),
    (r"\frac12\%", r"\boxed{0.5\%}", 1),
    (r"\emptyset", r"$\emptyset$", 1),
    (r"\infty", r"$\infty$", 1),
    ("[0,1)", "$[0,1)$", 1),
    ("[0,1)", "$[0,1]$", 0),
    (r"\{1,2\}", r"$\{2,1\}$", 1),
    (r"\sqrt{2}/2", r"$\frac{1}{\sqrt{2}}$", 1),
    ("10^{-20}", "$10^{-21}$", 0),
    ("3x", r"\boxed{2x + x}", 1),
    (r"\frac{2}{3}", "2/3", 1),
    ("42", "The answer is 42.", 1),
    ("3:4", r"$\frac{3}{4}$", 1),
    (r"5 \text{ km}", "$5$", 1),
    (r"\begin{pmatrix}10^{-8}\\1\end{pmatrix}", r"$\begin{pmatrix}10^{-9}\\1\end{pmatrix}$", 0),
    (r"1 \times 10^{-40}", r"$1.0000001 \times 10^{-40}$", 1),
    ("i", "$i$", 1),
    ("e^{-100}", "$e^{-101}$", 0),
    ("e^{-100}", "$e^{-100}$", 1),
    (r"\sin(10^{-9})", r"$\sin(10^{-10})$", 0),
    (r"\frac{3}{2006!} ", r"$\frac{6}{2\cdot 2006!}$", 1),
    # A variable that ends an expression is no unit.
    ("a + b + c", r"\boxed{a+b+c}", 1),
    ("a+b+c", r"$a + b + c$", 1),
    ("a + b + c", r"\boxed{a + b}", 0),
    (r"\frac{1}{3}\pi r^2 h", r"\boxed{\frac{\pi r^{2}h}{3}}", 1),
    (r"\pi r^2 h", r"\boxed{\pi r^2}", 0),
    (r"\pi d", r"\boxed{\pi}", 0),
    ("mgh", r"\boxed{m g h}", 1),
    ("v_0t", r"\boxed{v_0 t}", 1),
    (r"\cos(t)", r"\boxed{\cos t}", 1),
    (r"x \le c", r"\boxed{x \leq c}", 1),
    ("x+2t", r"\boxed{2t + x}", 1),
    ("x + 2t", r"\boxed{x + 2}", 0),
    ("0.001", r"\boxed{1e-3 s}", 1),
    ("-5", r"\boxed{-5 m}", 1),
    ("1000", r"\boxed{10^3 m}", 1),
    ("5", r"\boxed{t = 5\, s}", 1),
    (r"3\pi", r"\boxed{3\pi m}", 1),
    ("5", r"\boxed{5 \quad m}", 1),
    ("3", r"\boxed{3 \thinspace s}", 1),
    ("5", r"\boxed{5 boys}", 1),
    ("5", r"\boxed{5 dollars per week}", 1),
    ("4", r"\boxed{5 boys}", 0),
    ("25", r"\boxed{25~\text{cm}^2}", 1),
    ("20", r"\boxed{20^\circ C}", 1),
    ("68", r"$68^{\circ} F$", 1),
    ("2x", r"\boxed{2 x}", 1),
    ("30", r"\boxed{30 ^\circ c}", 1),
    # Vectors, money and groups of digits.
    (r"\langle 1,2,3\rangle", r"\boxed{\left\langle 1, 2, 3 \right\rangle}", 1),
    (r"\langle 1,2,3\rangle", r"\boxed{(1, 2, 3)}", 1),
    (r"\langle 1,2,3\rangle", r"\boxed{\langle 1,2,4\rangle}", 0),
    ("5.5", "\\boxed{\u00a35.50}", 1),
    ("500", "\\boxed{500\u20ac}", 1),
    ("1000000", r"\boxed{1 000 000}", 1),
    ("512", r"\boxed{12 500}", 0),
    # A letter that is a variable, and units without \text.
    *(("3", r"\boxed{3t}", 0), ("3t", r"\boxed{3}", 0), ("3t", r"\boxed{3 t}", 1)),
    *(("3", r"\boxed{3x}", 0), ("3", "3t", 0), ("3", "3i", 0), ("2n", "2n", 1)),
    *((r"\frac{a}{b} c", r"\boxed{\frac{ac}{b}}", 1), (r"\frac{a}{b} c", r"$\frac{a}{b}$", 0)),
    *((r"\frac{x}{y} s", r"\boxed{\frac{xs}{y}}", 1), (r"\sqrt{2} t", r"\boxed{\sqrt{2}}", 0)),
    *(("0.75", r"\boxed{\frac{3}{4} m}", 1), (r"\sqrt{2}", r"\boxed{√{2}}", 1)),
    *((r"\frac{s\sqrt{3}}{2}", r"\boxed{\frac{\sqrt3}{2} s}", 1), ("5", r"\boxed{5 s}", 1)),
    *(("60 - 10 m", r"\boxed{60 - 10m}", 1), ("60 - 10 m", r"\boxed{50}", 0)),
    *(("25", r"\boxed{25 cm^2}", 1), ("25 cm^2", r"\boxed{25}", 1), ("5", r"$25\,cm^{2}$", 0)),
    *(("25", "25 m^2", 1), ("25", r"\boxed{25 m^2}", 1), ("4 m^2", r"\boxed{4m^2}", 1)),
    *(("4 m^2", r"\boxed{4}", 0), ("4 m^2", r"\boxed{4m^3}", 0), ("25", "The area is 25 m².", 1)),
    *(("10", "10 km / h", 1), ("10", r"\boxed{10 km/h}", 1), ("10 km/h", r"\boxed{10}", 1)),
    *(("9.8", r"\boxed{9.8 m/s^2}", 1), ("9.8", "9.8 m/s²", 1), ("2", "9.8 m/s^2", 0)),
    *(("18", r"\boxed{\text{18 dollars}}", 1), ("25", r"$25\,cm^{2}$", 1)),
    # Equations, relations and complex numbers.
    *(("x^2+y^2=4", r"\boxed{x^2+y^2-4=0}", 1), ("x^2+y^2=4", r"\boxed{x^2+y^2-2=0}", 0)),
    (r"\frac{x^2}{4}+\frac{y^2}{9}=1", r"\boxed{9x^2+4y^2=36}", 1),
    *((r"x \in [2, \infty)", r"\boxed{x \ge 2}", 1), (r"x \in [2, \infty)", r"$x > 2$", 0)),
    *((r"x \in (2, 3)", r"\boxed{2<x<3}", 1), (r"x \ge 2", r"\boxed{x \in [2, \infty)}", 1)),
    *((r"x \neq 2", r"\boxed{x \ne 3}", 0), (r"x \neq 2", r"\boxed{x \ne 2}", 1)),
    *(("2+3i", "2 + 3i", 1), ("2+3i", r"\boxed{2 + 3 i}", 1), ("2+3i", "2 - 3i", 0)),
    *(("2x+3", "f(x) = 2x + 3", 1), ("3", "f(x) = 2x + 3", 0), ("42", "b) 42", 1)),
    ("(1,2),(3,4)", r"\boxed{\{(1,2),(3,4)\}}", 1),
    # Lists, text and commands.
    *(("1,2", "1, 2", 1), ("2", "1, 2", 0), ("1,2,3", "They are 1, 2, and 3.", 1)),
    *(("3", "It is 1, 2 or 3.", 0), ("5", ".5", 0), ("1234", "1,234", 1)),
    *((r"\text{Yes}", "The answer is yes.", 1), (r"\text{Yes}", "**Answer:** Yes", 1)),
    *(("5t", "#### 5t", 1), ("5t", "#### 5", 0)),
    *((r"\text{Yes}", "The answer is not yes.", 0), ("No", "The answer is Yes.", 0)),
    *(("18", "####18", 1), ("-3", "\\boxed{\u20133}", 1), ("3.14", r"\boxed{\approx3.14}", 1)),
    *(("90", r"\boxed{90\degree}", 1), ("90", r"\boxed{90^o}", 1), ("90", r"$90 ^ \circ$", 1)),
    *((r"\frac12", r"\boxed{\nicefrac{1}{2}}", 1), (r"\frac73", r"\boxed{2.\bar{3}}", 1)),
    *((r"\ln 2", r"\boxed{ln 2}", 1), (r"\frac{\pi}{2}", r"\boxed{pi/2}", 1)),
    *((r"\{1,2\}", r"\boxed{\lbrace 1, 2 \rbrace}", 1), (r"\emptyset", r"$\varnothing$", 1)),
    *(("0", r"$(-\infty, 0) \bigcup (1, 2)$", 0), (r"\mathbb{R}", r"$\mathbb R$", 1)),
]


@over(("answer", "text", "right"), NUMBERS)
def test_numbers(answer: str, text: str, right: int) -> None:
    assert Numeric().check(answer) is None
    assert Numeric().verify(text, answer=answer).reward == right


@over("number", [0, 7, 1000, 1234567, -8, 10**9])
def test_a_number_is_the_same_however_it_is_typeset(number: int) -> None:
    grouped = f"{number:,}"
    forms = [grouped, *(grouped.replace(",", by) for by in ("\u2009", "\u00a0", " ", "{,}", r"\,"))]
    forms += [grouped.replace(",", by) for by in ("_", r"\_", "'", "\u2019")]
    for form in [*forms, *(f.replace("-", "\u2212") for f in forms), f"${number}$"]:
        assert last_number(form) == number, form
        assert last_number(f"'{form}'") == number, form


@over(
    ("text", "number"),
    [
        *(("12,34,567", 1234567), (r"1{,}00{,}000.5", 100000.5), ("-1,00,00,000", -(10**7))),
        *(("1, 23, 456", None), ("120_8", None), ("12,34,56", None), ("1,23,456,78", None)),
        *(("1'234'567", 1234567), ("1_000_000", 10**6), ("5'11", 11), ("x_1_000", None)),
    ],
)
def test_groups_of_digits_are_one_number_and_lists_are_none(text: str, number: float) -> None:
    part = re.findall(r"\d+", text)[-1]
    for answer, right in ((part, number == int(part)), (str(number or 0), number is not None)):
        assert Numeric().verify(rf"It is \boxed{{{text}}}", answer=answer).reward == right
    assert number is None or last_number(f"It is {text}") == number


def test_a_tolerance_never_swallows_the_answer() -> None:
    verifier = Numeric(tolerance=1e-3)
    for answer, text, right in (
        (r"2 \times 10^{-7}", r"5 \times 10^{-7}", 0),
        ("2e-7", "0", 0),
        ("2e-7", "2.0001e-7", 1),
        ("0", "0.0005", 1),
        ("0.5", "0.5009", 1),
        ("2000", "2001", 1),
    ):
        assert verifier.verify(text, answer=answer).reward == right, (answer, text)


@over(("answer", "text", "right"), EXPRESSIONS)
def test_expressions(answer: str, text: str, right: int) -> None:
    assert MathVerify().check(answer) is None
    assert MathVerify().verify(text, answer=answer).reward == right


@over("answer", ["", " ", r"\frac{1}{", "2/0", "??", r"\boxed{}", r"\left(", "x^2+", "12:0"])
def test_an_answer_that_cannot_be_parsed_is_told_and_never_scores(answer: str) -> None:
    """A completion that cannot be is worth 0; the answer's own fault is nobody's reward."""
    assert MathVerify().check(answer)
    assert MathVerify().verify(r"$\frac{1}{$", answer="0.5").reward == 0
    try:
        assert MathVerify().verify("1", answer=answer).reward is None
    except Exception as error:  # the desk makes it unscorable
        assert not isinstance(error, AssertionError)


@over(
    "answer", ["3", "-0.5", "3/4", r"$\frac{-3}{4}$", r"\dfrac{3}{10}", r"2\sqrt{3}", r"\sqrt{2}"]
)
def test_what_is_not_tried_beforehand_can_be_parsed(answer: str) -> None:
    assert is_simple(answer)
    assert MathVerify().verify(f"${answer.strip('$')}$", answer=answer).reward == 1
    assert MathVerify().verify("$7x$", answer=answer).reward == 0


@over(("verifier", "answer"), [("math_verify", r"\frac{1}{"), ("numeric", "three")])
def test_a_run_is_refused_that_cannot_be_scored(verifier: str, answer: str, tmp_path: Path) -> None:
    path = tmp_path / f"{verifier}.jsonl"
    rows = [{"prompt": f"q{i}", "answer": "1"} for i in range(3)]
    rows.append({"prompt": "q3", "answer": answer})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(TaskError) as caught:
        Dataset(path=str(path), verifier=verifier, heldout_fraction=0.5).problems(make.CODEC)
    assert "row 3: the answer" in str(caught.value) and repr(answer) in str(caught.value)
