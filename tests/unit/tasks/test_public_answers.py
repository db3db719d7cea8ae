"""Answers as people bring them, many from public issues (named behind the row) since 2025."""

import json
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gfcr.errors import TaskError
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.verifiers._expressions import choice, is_huge, prepared
from gfcr.tasks.verifiers._test_forms import forms_of
from gfcr.tasks.verifiers.math_verify import MathVerify
from gfcr.tasks.verifiers.numeric import Numeric, last_number
from gfcr.tasks.verifiers.sql import Sql
from gfcr.testing import factories as make
from gfcr.values.fenced import last_block
from tests.cases import over

EXPRESSIONS = [
    ("42", "<think>maybe 41</think><answer>42</answer>", 1),  # maxtext 4150
    (r"\frac12", "<answer>1/2</answer>", 1),
    ("42", r"<think>\boxed{42}</think> It is 41.", 0),
    ("42", r"\boxed{41}. Wait: \boxed{42}", 1),  # Gym 1844
    ("41", r"\boxed{41}. Wait: \boxed{42}", 0),
    ("3,5,7", r"\boxed{3}, \boxed{5} and \boxed{7}", 1),
    ("42", r"\fbox{42}", 1),  # slime 2150
    ("B", r"\boxed{b}", 1),  # verl 6793
    ("B", "so 4 is left.\n\nB", 1),  # AssetOpsBench 477
    ("B", r"\boxed{\text{Answer: B}}", 1),  # Gym 1945
    ("E", r"\boxed{E: A polygenic risk score}", 1),  # Gym 1844
    ("B", "The answer is B. Note that A is a common distractor.", 1),  # omlx 3668
    ("K", "(K)", 1),  # AReaL 1129
    ("A,C", r"\boxed{C, A}", 1),
    ("A,C", r"\boxed{A, B}", 0),
    ("Paris", "Paris", 1),  # open-r1 56
    ("True", r"\boxed{\text{True}}", 1),
    ("True", "False", 0),
    (r"\$18.90", r"\boxed{\$18.90}", 1),
    (r"\$1,000", r"\boxed{1\,000}", 1),
    ("1 1/2", r"\boxed{\frac32}", 1),  # Math-Verify 81
    ("71/6", "11 5/6", 1),
    ("2", "2 2/3", 0),
    ("10", "4 10/3", 0),
    (r"0.\overline{3}", r"\boxed{\frac{1}{3}}", 1),
    (r"0.\overline{3}", r"\boxed{0}", 0),
    (r"\frac16", r"\boxed{0.1\overline{6}}", 1),
    (r"\frac{3}{11}", r"\boxed{0.\overline{27}}", 1),
    ("120_8", r"\boxed{120_8}", 1),
    ("120_8", r"\boxed{120_9}", 0),
    ("(1,2)", r"$\{1,2\}$", 0),
    (r"\{1,2\}", "$(1,2)$", 0),
    (r"\{1,2\}", "$2,1$", 1),
    (r"10-2\sqrt{5}", r"\boxed{10 - 2√5}", 1),  # open-r1 503
    ("x^2", r"\boxed{x²}", 1),
    ("12", "\\boxed{\uff11\uff12}", 1),
    (r"-\infty", "\\boxed{\u2212∞}", 1),
    ("1", r"\boxed{9^{9^{9}}}", 0),  # Math-Verify 65
    ("1", "9**9**9", 0),
    (r"7.41\%", r"\boxed{7.41\%}", 1),  # Math-Verify 50
    ("5", r"\boxed{4} or \boxed{5}", 0),
    ("5", "It is 4 or 5.", 0),
    ("x=5", "x=4 or x=5", 0),
    ("4,5", "4 or 5", 1),
    ("-5", "The change is -$5.", 1),
    ("5", "The change is -$5$", 0),
    ("-5", r"-\$5", 1),
    ("5", "Answer: +5", 1),
    ("5", "$2 +3$", 1),
    ("-0.5", "It is -.5", 1),
    ("0.5", ".5", 1),
    (r"m \geq \sqrt{2}", r"$m \in [\sqrt{2}, +\infty)$", 1),  # Math-Verify 25
    ("5", r"\boxed{5}? No: \boxed{\sqrt{\frac{5^{\frac{1}{2}}}{2}}}", 0),
    *(("2", "It is 2π.", 0), (r"2\pi", "It is 2π.", 1), (r"3+2\sqrt{2}", "x = 3 + 2√2.", 1)),
    *((r"\sqrt{2}", "√2", 1), (r"\frac{\sqrt{2}}{2}", "It is sqrt(2)/2.", 1)),
    *(("3", "It is (2, 3).", 0), ("(2,3)", "It is (2, 3).", 1), ("(2,3)", "(2, 3)", 1)),
    (r"(-\infty,2)\cup(3,\infty)", "(-∞, 2) \u222a (3, ∞)", 1),
    *((r"\frac12", "It is **1/2**.", 1), ("8", r"\boxed{2**3}", 1), ("25", "It is `25`.", 1)),
    *(("25", "x = - 25", 0), ("-25", "x = - 25", 1), ("25", "25x", 0), ("7", "x=3,y=4,x+y=7", 1)),
    *(("1,2", "They are 1 and 2.", 1), ("2", "They are 1 and 2.", 0), ("1.5", "It is 1½.", 1)),
    *(("12.5", r"\boxed{12.5\%}", 1), (r"12.5\%", "12.5", 1), (r"50\%", r"\boxed{0.5\%}", 0)),
    *(("10", "10²", 0), ("64", "4³", 1), ("2", "x = ±2", 0), (r"\pm 2", "x = ±2", 1)),
    *(("10:30", "It is\n10:30 AM", 1), ("10:30", "11:30", 0), (r"45^\circ", r"\boxed{45°}", 1)),
]

NUMBERS = [
    ("12", r"\boxed{12}. Check: 3 * 4", 1),
    ("12", "<think>12</think>I do not know.", 0),
    ("12", "<think>Perhaps it is 12", 0),  # cut before it was answered
    ("12", "<think>So <answer>12</answer>", 1),
    ("12", "<answer>12</answer> (of 30)", 1),
    ("12", "12</answer> (of 30)", 1),  # the prompt ends in <answer>
    ("1 1/2", "1.5", 1),
    ("1.5", "1 1/2", 1),
    ("0.5", "1 1/2", 0),
    ("5", "5 m^2", 1),
    ("3", "x^3", 0),
    (r"2\times10^{-7}", "2e-7", 1),
    ("$1,234", "1234", 1),
    ("-3/4", "-0.75", 1),
    ("x=5", "5", 1),
    ("-3", "x = - 3", 1),
    ("-3", r"\boxed{- 3}", 1),
    ("- 3", "-3", 1),
    ("3", "x = - 3", 0),
    ("3", "5 - 3", 1),
    ("3", "Of these:\n- 3", 1),
    ("1000000", "1 million", 1),
    ("1.5 million", "1,500,000", 1),
    ("1", "1 million", 0),
    ("50", "50%", 1),
    ("0.5", "50%", 0),
    ("-0.75", r"\boxed{\frac{-3}{4}}", 1),
    ("4", r"\boxed{\frac{-3}{4}}", 0),
    (r"\frac{3}{-4}", r"x = -\frac{3}{4}", 1),
    ("3/4", r"\frac{-3}{-4}", 1),
    ("-5", "The change is -$5.", 1),
    ("5", "The change is -$5.", 0),
    ("-5", "\u2212\u20ac5", 1),
    ("3", "5-$3", 1),
    ("90^\\circ", "90", 1),
    ("9.8 m/s^2", "9.8", 1),
    (r"3 \text{ m/s}", "It is 3 m/s.", 1),
    ("2 g/L", "3", 0),
    ("5", "4 or 5", 0),
    ("5", r"\boxed{4 \text{ or } 5}", 0),
    ("5", "Is it 4 or 5? It is 5.", 1),
    ("5", "5 or 5.0", 1),
    *(("10080", r"\boxed{10,\!080}", 1), ("80", r"\boxed{10,\!080}", 0)),  # as MATH typesets them
    (r"11,\! 111,\! 100", "11111100", 1),
    *(("50 m2", "60 m2", 0), ("50", "It is 50 cm2.", 1), ("50", "50m3", 1), ("-5", "-₹5", 1)),
    *(("18", r"\boxed{18n}", 0), ("18", "18i", 0), ("18", "18in", 1), ("18", "18k", 0)),
    *(("0.75", "It is 3 / 4.", 1), ("4", "It is 3 / 4.", 0), ("2", "7/3.5", 1)),
    *(("2", r"\boxed{2\pi}", 0), ("2", "It is 2π.", 0), ("2", r"It is $\sqrt{2}$.", 0)),
    *(("3", r"\boxed{(1, 3)}", 0), ("3", r"\boxed{x^2 + 3}", 0), ("30", r"\boxed{12:30}", 0)),
    ("7", r"\boxed{3 + 4 = 7}", 1),
    ("4", r"\boxed{\sqrt{16} = 4}", 1),
    ("1.41", r"\boxed{\sqrt{2} \approx 1.41}", 1),
    ("5", r"\boxed{5 \text{ cm}^2}", 1),
    ("90", r"\boxed{90^\circ}", 1),
    ("1234.5", r"\boxed{\$1,234.50}", 1),
    ("2e-3", r"\boxed{2 \times 10^{-3}}", 1),
    ("5", r"\boxed{5^{th}}", 1),
]

HEDGES = [
    "The answer is A or B.",
    "The answer is B or A.",
    "The answer is A and B",
    "The answer is A and B are correct",
    "The answer is A, B, C or D",
    "Answer: A/B",
    "Answer: **A** or **B**",
    "either (B) or (A)",
    "Answer: A; B",
    "The answer is A or B (either).",
    "$B$ and/or $A$",
    "option B or option A",
    "The answer is A.\n\nA or B",
    r"\boxed{A} or \boxed{B}",
    r"\boxed{B}, \boxed{A}",
    r"\boxed{\text{B or A}}",
    r"\boxed{Answer: A or B}",
    r"\boxed{A. or B.}",
    r"\boxed{A. Paris or B. London}",
    *("A. Paris or B. London", "A) or B)", "A. Paris\nB. London"),
]
CHOSEN = [
    "The answer is A, and B is wrong.",
    "The answer is A, B and C are wrong.",
    "The answer is A, I think.",
    "The answer is A, I'm sure.",
    "The answer is A, or I'm lost.",
    "The answer is A, U.S. law says.",
    "The answer is A, X-rays are absorbed.",
    "The answer is A, V = 3 being too low.",
    "The answer is A. B, C and D are distractors.",
    "The answer is A, not B.",
    "The answer is A, option A.",
    "The answer is (A), for (B) and (C) are too small.",
    "Between (B) and (C), (A) is right",
    "It is (A) or (B). I choose (A).",
    "The answer is A or B. No: the answer is A.",
    "B or C?\nA",
    r"\boxed{A. Both (B) and (C)}",
    r"\boxed{A. Salmonella and E. coli}",
    r"\boxed{B} is tempting, but \boxed{A}",
    "**Answer**: A",
    r"The answer is \(A\).",
    r"The answer is $\text{A}$.",
    "The answer must be A.",
    "Therefore, A is the correct answer.",
    "Answer: A\n\nOption B is too small, and option C is too large.",
    "The answer is option A. Option B is wrong.",
    "Answer: (A)\n\nWhy not choice B? It is too small.",
    *("A) Paris", "A. Paris, the capital\n", "A. Vitamin C."),
]


@over(("answer", "text", "right"), EXPRESSIONS)
def test_expressions(answer: str, text: str, right: int) -> None:
    assert MathVerify().check(answer) is None
    assert MathVerify().verify(text, answer=answer).reward == right


@over(("answer", "text", "right"), NUMBERS)
def test_numbers(answer: str, text: str, right: int) -> None:
    assert Numeric().check(answer) is None
    assert Numeric().verify(text, answer=answer).reward == right


@over(("text", "right"), [*((t, 0) for t in HEDGES), *((t, 1) for t in CHOSEN)])
def test_several_choices_are_none_and_others_may_be_mentioned(text: str, right: int) -> None:
    """Else a policy learns to name them all."""
    assert MathVerify().verify(text, answer="A").reward == right


@over(
    "text",
    [
        *("A" + " " * 30_000 + "x", "1" + " " * 100_000, "A, " * 9_000, "(" * 20_000),
        *("1" * 30_000, "~" * 30_000, "~~~ " * 30_000, r"\boxed{" * 9_000),
        *(r"\boxed{" + "{" * 30_000, r"\boxed{" + "{}" * 15_000, "{" * 30_000, "(1," * 9_000),
        "{" + "a " * 30_000,
    ],
)
def test_no_completion_takes_long_to_read(text: str) -> None:
    began = time.process_time()
    assert choice(text) is None
    assert last_number(text) in (1, None)
    assert prepared(text) and last_block(text) == text
    assert time.process_time() - began < 3


def test_a_marked_number_is_that_of_its_line_whatever_follows() -> None:  # verl 7274
    marked = Numeric(marker="####")
    for text in (
        "#### 42\n\nQuestion: 5 + 5?\nAnswer: 10",
        "####\n42",
        "#### 42\n" + "so 7. " * 99,
    ):
        assert marked.verify(text, answer="#### 42").reward == 1, text
    assert marked.verify("42", answer="42").reward == 0


@over(
    "answer",
    [
        *("12:30", "2024-01-02", r"2\sqrt{3}", r"3\pi", "x+3", "1,2,3", "2^{10}", "3!", "(3, 5)"),
        *("x^2 + 7x + 10", r"\left( 3, \frac{\pi}{2} \right)", r"3 \sqrt{2}", r"\pm 2", "x < 3"),
        *(r"(-\infty, 3)", "1, 2, 3", r"\log_2 3", r"x \le 3", "3x/2"),
    ],
)
def test_an_answer_that_is_more_than_a_number_is_refused(answer: str) -> None:
    """Its last number would be compared alone: 11:30 is not 12:30."""
    assert Numeric().check(answer) == "it is more than a number"


@over("answer", [r"10^{10^{10}}", r"5^{\left(5^{\left(5^{(5^5)}\right)} - 4\right)}", "100000000!"])
def test_a_quantity_without_end_is_refused_and_does_not_hang(answer: str) -> None:
    assert MathVerify().check(answer)  # Math-Verify 65


@over("text", [r"2^{2^{10}}", r"10^{10}x^{2}", r"2^{10}3^{4}", "1/2006!", "2^{99}", "x^{10^{10}}"])
def test_what_can_be_computed_is(text: str) -> None:
    assert not is_huge(text)


@over(
    "text",
    [
        "```python\nX\n```\nFor example:\n```\n>>> f(1)\n```",
        "```python\nX\n```\nOutput:\n```text\n3\n```",
        "<think>```py\nY\n```</think>```py\nX\n```",
        "1. Code:\n   ```python\n   X\n   ```",
        "~~~python\nX\n~~~",
        *("```python3.11\nX\n```\n```\n3\n```", "```{.py title='a'}\nX\n```\n```\n3\n```"),
        "<answer>X</answer>",
        "<answer>```\nX\n```</answer>",
        "First ```sort``` it:\n```python\nX\n```",
        "```python\nX\n```\nIt has ```f``` and\nends.",
    ],
)
def test_code_is_what_is_labelled_so_and_said_at_last(text: str) -> None:
    assert last_block(text).strip() == "X"


def test_thoughts_are_no_queries() -> None:
    for text in ("<think>SELECT 2</think>SELECT 1", "<answer>SELECT 1</answer>"):
        assert Sql().verify(text, answer="SELECT 1").reward == 1


def test_functions_that_pytest_would_call_are_called() -> None:
    """Else nothing of them runs, and every program is right."""
    for imported in ("f", "(\n    f,\n)"):
        given = f"from solution import {imported}\n\ndef test_a():\n    assert f(1) == 2\n"
        tests = forms_of(given)
        assert isinstance(tests, str)
        called = list[int]()
        exec(tests, {"f": lambda x, called=called: called.append(x) or 2})
        assert called == [1]


def test_numbers_of_tables_are_as_they_were_written(tmp_path: Path) -> None:
    """A column of 7 and 8.5 holds floats, and `exact` compares texts."""
    path = tmp_path / "q.jsonl"
    rows = [{"prompt": f"{n:.0f}", "answer": n} for n in (7, 8.5, 9)]
    path.write_text("\n".join(map(json.dumps, rows)))
    problems = Dataset(path=str(path), heldout_fraction=0.01).problems(make.CODEC)
    assert {p.answer for p in [*problems.train, *problems.heldout]} == {"7", "8.5", "9"}
    for column in (pa.array([0.1, 8.5], pa.float32()), pa.array([Decimal("0.1"), Decimal("8.5")])):
        pq.write_table(pa.table({"prompt": ["1", "2"], "answer": column}), tmp_path / "q.parquet")
        found = Dataset(path=str(tmp_path / "q.parquet"), heldout_fraction=0.01)
        assert {p.answer for p in found.problems(make.CODEC).train} == {"0.1", "8.5"}
    path.write_text('{"prompt": "1", "answer": NaN}\n{"prompt": "2", "answer": 1.5}')
    with pytest.raises(TaskError, match="row 0: column 'answer'"):
        Dataset(path=str(path), heldout_fraction=0.01).problems(make.CODEC)


def test_cells_of_csv_are_as_they_were_written_and_functions_get_numbers(tmp_path: Path) -> None:
    path, cells = tmp_path / "q.csv", ["007", "1.50", "NA", "true"]
    path.write_text("prompt,answer,n\n" + "".join(f"{i},{c},1\n" for i, c in enumerate(cells)))
    (tmp_path / "f.py").write_text("def f(completion, n): return n + 1")
    task = Dataset(path=str(path), heldout_fraction=0.01, verifier=str(tmp_path / "f.py") + ":f")
    found = task.problems(make.CODEC)
    both = [*found.train, *found.heldout]
    assert sorted(p.answer for p in both) == sorted(cells)
    assert task.verify(both[0], text="").reward == 2
    (tmp_path / "data").mkdir()
    path.rename(tmp_path / "data" / "train.csv")
    (tmp_path / "data" / "test.csv").write_text("prompt,answer\n9,008")  # and no `n`
    split = Dataset(path=str(tmp_path / "data"), heldout_split="test").problems(make.CODEC)
    answers = [sorted(p.answer for p in side) for side in (split.train, split.heldout)]
    assert answers == [sorted(cells), ["008"]]
    kinds = {"prompt": "string", "answer": "int64", "n": "float64"}
    features = [{"name": name, "dtype": kind} for name, kind in kinds.items()]
    card = json.dumps({"dataset_info": {"features": features}})
    (tmp_path / "data" / "README.md").write_text(f"---\n{card}\n---\n")
    for name, answer in (("train", "007"), ("test", "008")):
        (tmp_path / "data" / f"{name}.csv").write_text(f"prompt,answer,n\n{answer},{answer},NA\n")
    declared = Dataset(path=str(tmp_path / "data"), heldout_split="test").problems(make.CODEC)
    assert [declared.train[0].answer, declared.heldout[0].answer] == ["7", "8"]
    path.write_text("prompt,answer\n1,1\n2,\n")
    with pytest.raises(TaskError, match="row 1: column 'answer' holds NoneType"):
        Dataset(path=str(path)).problems(make.CODEC)


def test_dates_of_json_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"prompt": "1", "answer": "2024-01-02"}')
    with pytest.raises(TaskError, match=r"holds the date 2024-01-02.*convert the file to .csv"):
        Dataset(path=str(path)).problems(make.CODEC)
