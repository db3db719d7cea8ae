"""Programs under unit tests: the forms of tests, the verdicts, what is unscorable."""

import json
from typing import Any

import pytest

from gfcr.errors import ConfigError, TaskError
from gfcr.sandbox.box import why_not
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.verifiers._test_forms import Calls, forms_of
from gfcr.tasks.verifiers.base import ANSWERS
from gfcr.tasks.verifiers.unit_tests import UnitTests, problem
from gfcr.testing import factories as make
from gfcr.types import Prompt
from tests.cases import over

needs_one = pytest.mark.skipif(bool(why_not()), reason="no sandbox here")

ASSERTS = "assert f(1) == 2\nassert f(2) == 3\nassert f(5) == 6"
PAIRS = {"inputs": ["1\n", "41"], "outputs": ["2", "42 \n\n"]}
RIGHT = "Sure:\n```python\ndef f(x):\n    return x + 1\n```\nDone."


@pytest.mark.slow
@needs_one
@over(
    ("text", "reward", "share"),
    [
        (RIGHT, 1.0, 1.0),
        ("def f(x): return x + 1", 1.0, 1.0),
        ("def f(x): return 2", 0.0, 1 / 3),
        ("```\ndef f(x): return 0\n```\nno:\n```py\ndef f(x): return x + 1", 1.0, 1.0),
        ("I do not know", 0.0, 0.0),
        ("def f(x): return undefined", 0.0, 0.0),
    ],
)
def test_asserts(text: str, reward: float, share: float) -> None:
    assert UnitTests().verify(text, answer=ASSERTS).reward == reward
    verdict = UnitTests(share=True).verify(text, answer=json.dumps(ASSERTS.splitlines()))
    assert verdict.reward == pytest.approx(share) == verdict.scores["tests_passed"]


@needs_one
@over(
    ("program", "reward", "share"),
    [
        ("print(int(input()) + 1)", 1.0, 1.0),
        ("print(2)", 0.0, 0.5),
        ("print(f'{int(input()) + 1:.2f}')", 1.0, 1.0),
        ("print(int(input()) + 1, '.')", 0.0, 0.0),
        ("print('2\\n2')", 0.0, 0.0),
        ("print(int(input()) + 1)\nraise SystemExit(1)", 0.0, 0.0),
        ("from __future__ import annotations\nprint(int(input()) + 1)\nexit()", 1.0, 1.0),
        ("if __name__ == '__main__':\n    print(int(input()) + 1)\n    quit(1)", 0.0, 0.0),
        ("input()", 0.0, 0.0),
    ],
)
def test_inputs_and_outputs(program: str, reward: float, share: float) -> None:
    assert UnitTests().verify(program, answer=json.dumps(PAIRS)).reward == reward
    rows = [
        {"input": i, "output": o} for i, o in zip(PAIRS["inputs"], PAIRS["outputs"], strict=True)
    ]
    assert UnitTests(share=True).verify(program, answer=json.dumps(rows)).reward == share


@needs_one
def test_a_check_of_a_named_function_and_tests_of_a_column() -> None:
    meta: dict[str, object] = {
        "entry": "max",
        "tests": ["def check(candidate):\n    assert candidate([1, 3]) == 3"],
    }
    prompt = Prompt(id="p", tokens=(), text="", answer="", meta=meta)
    verifier = UnitTests(entry_column="entry", tests_column="tests")
    assert verifier.judge(prompt, text="def max(x): return sorted(x)[-1]").reward == 1
    assert verifier.judge(prompt, text="def max(x): return sorted(x)[0]").reward == 0
    assert verifier.lacks(["tests"]) == "unit_tests.entry_column is 'entry'"


@pytest.mark.slow
@needs_one
def test_time_and_memory_of_the_program_are_worth_0_and_noted() -> None:
    quick = UnitTests(seconds=1.0)
    verdict = quick.verify("def f(x):\n    while True: pass", answer=ASSERTS)
    assert (verdict.reward, verdict.error) == (0.0, None)
    assert verdict.scores == {"tests_passed": 0.0, "timed_out": 1.0}
    late = quick.verify("import time\ntime.sleep(9)", answer=json.dumps(PAIRS))
    assert (late.reward, late.scores["timed_out"]) == (0.0, 1.0)
    hungry = UnitTests(memory_mib=128).verify("def f(x): return [0] * 10**9", answer=ASSERTS)
    assert (hungry.reward, hungry.scores["timed_out"]) == (0.0, 0.0)


@needs_one
def test_tests_that_cannot_test_are_unscorable() -> None:
    own = "class E(Exception): pass\nclass C:\n def __enter__(self): pass\nM = 1\n"
    for tests in (
        *("assert f(lambda x: x) == 1", "assert f(0) == M", "with C() as c:\n    assert f(0) == 1"),
        *("try:\n    f(1)\nexcept (E, OSError):\n    pass\nassert f(0) == 1",),
    ):
        unsuited = UnitTests().verify(f"{own}def f(g): return g(1)", answer=tests)
        assert unsuited.reward is None and "unsuited" in str(unsuited.error), tests
    local = (
        "def same(M, g):\n    assert f is not None\n    assert M == f(g)\nsame(1, 1)\n"
        "try:\n    f()\nexcept TypeError as E:\n"
    )
    assert UnitTests().verify("def f(x): return x", answer=f"{local}    assert E != 3").reward == 1
    for answer in ("no tests", "x = 1", "{}", "[]", '{"inputs": ["1"], "outputs": []}', "12"):
        verdict = UnitTests().verify(RIGHT, answer=answer)
        assert verdict.reward is None and verdict.error and UnitTests().check(answer)


@needs_one
@over(
    "tests",
    [
        "def check(candidate):\n    assert candidate(1) == 2",
        "class TestF:\n    def test_one(self):\n        assert f(1) == 2",
        "def test_one(tmp_path):\n    assert f(1) == 2",
        "def main():\n    assert f(1) == 2\n\nif __name__ == '__main__':\n    main()",
    ],
)
def test_tests_that_are_never_called_are_no_pass(tests: str) -> None:
    for program in (RIGHT, "def f(x): return 0"):
        verdict = UnitTests().verify(program, answer=tests)
        assert verdict.reward is None and "the tests call nothing" in str(verdict.error)


@over("line", ["import numpy as np", "import json, pytest", "from solution.own import f"])
def test_tests_that_import_what_the_sandbox_lacks_are_unscorable(line: str) -> None:
    """Else every program fails them, the right ones too."""
    for answer in (f"{line}\n{ASSERTS}", f"def test_f():\n    {line}\n    assert f(1) == 2"):
        verdict = UnitTests().verify(RIGHT, answer=answer)
        assert verdict.reward is None and "only the standard library" in str(verdict.error)
    assert UnitTests().check(f"import os.path\nfrom math import gcd\n{ASSERTS}") is None
    without = f"try:\n    import numpy as np\nexcept ImportError:\n    np = None\n{ASSERTS}"
    assert UnitTests().verify(RIGHT, answer=without).reward == 1


@needs_one
def test_library_names_that_tests_use_are_python_s_own() -> None:
    """Where several names are free, a program cannot give its own `isclose`."""
    lie = "def isclose(a, b): return True\ndef Counter(x): return 0\ndef f(x): return 0"
    for answer in ("assert isclose(f(1), 2)", "assert Counter(f(1)) == Counter([2])"):
        assert UnitTests().verify(lie, answer=answer).reward == 0
    assert UnitTests().verify("def gcd(a, b): return 4", answer="assert gcd(1, 2) == 4").reward == 1
    for given, reward in ((6, 1), (25, 0)):  # MBPP 126
        program = f"def sum(a, b): return {given}"
        assert UnitTests().verify(program, answer="assert sum(10, 15) == 6").reward == reward


OWN = """
from datetime import date, datetime, timezone
from decimal import Decimal
from fractions import Fraction
class A:
    def __init__(self, n=0):
        self.n = n
    def __eq__(self, other):
        return self.n == other.n
    def __add__(self, other):
        return A(self.n + other.n)
    def __sub__(self, other):
        return 0.0
    def __repr__(self):
        return f"A({self.n})"
    def __contains__(self, other):
        return True
class E(ValueError):
    pass
def h(x):
    return map(abs, [x])
def g():
    yield 1
    raise E("no")
async def j():
    yield 1
async def k(x):
    return x + 1
def f(x):
    return x
"""


@needs_one
@over(
    "value",
    [
        *("Fraction(1, 3)", "Decimal('0.10')", "date(2024, 2, 29)", "[{Fraction(-10**5000, 7)}]"),
        *("datetime(2024, 2, 29, 1)", "datetime(2024, 2, 29, tzinfo=timezone.utc)"),
        *("complex(-0.0, 1)", "frozenset({1, 2})", "10**5000", "bytearray(b'a')", "{b'a': 0.1}"),
    ],
)
def test_values_of_the_standard_library_are_told_to_the_tests(value: str) -> None:
    imports = "\n".join(OWN.splitlines()[1:4])
    for tests, reward in ((f"assert f(0) == {value}", 1), (f"assert f({value}) == 7", 0)):
        program = f"{OWN}\nf = lambda x: {value}"
        assert UnitTests().verify(program, answer=f"{imports}\n{tests}").reward == reward


@needs_one
@over(
    ("tests", "reward"),
    [
        ("assert isinstance(f(A()), A)", 1),
        ("assert isinstance(f(1), A)", 0),
        ("assert f(A()) == 1", 0),
        ("assert f(A(1)) == A(1)", None),
        ("assert [f(A())] != [None, A()]", 1),
        ("a = A(1)\na.n = 2\na.next = A(3)\nassert (f(a).n, f(a).next.n) == (2, 3)", 1),
        ("a = A(1)\na.n = 2\nassert f(a).n == 1", 0),
        ("assert abs(f(A(1)) - 0.5) < 1e-9", 0),
        *(("assert 3 in f(A(1))", None), ("assert 3 in h(1)", 0), ("assert 1 in h(1)", 1)),
        ("assert (A(1) + A(2)).n == 3 and repr(A(1) + A(2)) == 'A(3)'", 1),
        ("it = g()\nassert next(it) == 1\ntry:\n    next(it)\nexcept ValueError:\n    pass", 1),
        ("from collections import deque\nassert A() == deque()", None),
        *(("assert asyncio.run(k(1)) == 2", 1), ("assert asyncio.run(k(1)) == 3", 0)),
        ("async def g():\n    return [x async for x in j()]\nassert asyncio.run(g()) == [1]", None),
        ("async def g():\n    return await k(1) + await k(2)\nassert asyncio.run(g()) == 5", 1),
    ],
)
def test_what_only_the_program_could_compare_is_unscorable(tests: str, reward: Any) -> None:
    assert UnitTests().verify(OWN, answer=tests).reward == reward


def test_forms_of_tests() -> None:
    assert forms_of('["assert a", "assert b"]') == "assert a\nassert b"
    assert forms_of(json.dumps(PAIRS)) == [("1\n", "2"), ("41", "42 \n\n")]
    assert problem("assert (") and problem("print(1)") and not problem("assert f()")


CALLS = {"fn_name": "f", "inputs": [[1, 2], [3, 4]], "outputs": [3, 7]}
METHOD = "class Solution:\n    def f(self, a: List[int], b=0) -> int:\n        return "


@needs_one
@over(
    ("program", "reward", "share"),
    [
        ("def f(a, b): return a + b", 1.0, 1.0),
        ("f = lambda a, b: a + b", 1.0, 1.0),
        (f"{METHOD}a + b", 1.0, 1.0),
        ("def f(a: ListNode, b) -> TreeNode: return a + b", 1.0, 1.0),
        (
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: int\n    b: Node = 0\n"
            "def f(a, b): return A(a, b).a + b",
            1.0,
            1.0,
        ),
        (f"{METHOD}a + b\ndef f(a, b): return 3", 0.0, 0.5),
        ("def f(a, b): return float(a + b)", 1.0, 1.0),
        ("def f(a, b): return [a + b]", 0.0, 0.0),
        ("def f(a, b): return str(a + b)", 0.0, 0.0),
        ("def f(a, b): print(a + b)", 0.0, 0.0),
        ("def f(a): return a", 0.0, 0.0),
        ("def g(a, b): return a + b", 0.0, 0.0),
        ("class Yes:\n    def __eq__(self, o): return True\ndef f(a, b): return Yes()", 0.0, 0.0),
        ("def f(a, b): raise SystemExit(0)", 0.0, 0.0),
        ("def _alike(a, b): return True\n_right = _alike\ndef f(a, b): return 0", 0.0, 0.0),
    ],
)
def test_calls_of_a_function_or_a_method(program: str, reward: float, share: float) -> None:
    answer = json.dumps(CALLS)
    assert UnitTests().check(answer) is None
    assert UnitTests().verify(program, answer=answer).reward == reward
    assert UnitTests(share=True).verify(program, answer=answer).reward == share


@needs_one
@over(
    ("value", "wanted", "right"),
    [
        ("(1, [2, (3,)])", [1, [2, [3]]], 1),
        ("[1, 2]", [2, 1], 0),
        ("[1, 2]", [1, 2, 3], 0),
        ("{1: (2,)}", {"1": [2]}, 1),
        ("{'a': 1, 'b': 2}", {"a": 1}, 0),
        ("0.1 + 0.2", 0.3, 1),
        ("1", 1.0, 1),
        ("0.3001", 0.3, 0),
        ("None", None, 1),
        ("0", None, 0),
        ("''", "", 1),
        ("'3'", 3, 0),
        ("True", True, 1),
        ("{1, 2}", [1, 2], 0),
        ("object()", {}, 0),
        ("10 ** 40", 10**40, 1),
        ("float('nan')", 1.0, 0),
        ("(float('nan'), 1)", [float("nan"), 1], 1),
        *(("0.0", float("nan"), 0), ("None", float("nan"), 0)),
    ],
)
def test_values_are_compared_as_json_has_them(value: str, wanted: Any, right: int) -> None:
    """A second call, which gives something else, shows that no value is of a list of its own."""
    answer = {"fn_name": "f", "inputs": [[0], [1]], "outputs": [wanted, [7, 7]]}
    program = f"def f(n): return [7, 7] if n else {value}"
    assert UnitTests().verify(program, answer=json.dumps(answer)).reward == right


@needs_one
def test_calls_as_data_sets_write_them() -> None:
    program = "def f(words, n): return sorted(words)[:n]"
    apps = {"fn_name": "f", "inputs": [[["b", "a"], 1], [["c"], 1]], "outputs": [[["a"]], [["c"]]]}
    lines = {"input": '["b", "a"]\n1', "output": '["a"]', "testtype": "functional"}
    named = {**lines, "metadata": {"func_name": "f"}}
    livecode = {"fn_name": "f", "inputs": [lines["input"]], "outputs": [lines["output"]]}
    for tests in (apps, livecode, [named, named]):
        assert UnitTests().check(json.dumps(tests)) is None
        assert UnitTests().verify(program, answer=json.dumps(tests)).reward == 1
        wrong = UnitTests().verify("def f(words, n): return words", answer=json.dumps(tests))
        assert wrong.reward == 0
    nameless = json.dumps([lines])
    prompt = Prompt(id="p", tokens=(), text="", answer=nameless, meta={"entry": "f"})
    assert UnitTests(entry_column="entry").judge(prompt, text=program).reward == 1
    verdict = UnitTests().verify(program, answer=nameless)
    assert verdict.reward is None and "entry_column" in str(verdict.error)
    for most in (50_000, 100_000):  # of which the answer, or the question, is more than 1 MiB
        many = {"fn_name": "f", "inputs": [[[*range(most)], most]], "outputs": [[*range(most)]]}
        assert UnitTests().verify(program, answer=json.dumps(many)).reward == 1


@needs_one
def test_lines_of_input_may_be_a_list() -> None:
    answer = json.dumps({"inputs": [["1", "2"]], "outputs": [["3"]]})
    assert UnitTests().verify("print(int(input()) + int(input()))", answer=answer).reward == 1
    assert UnitTests().verify("print(4)", answer=answer).reward == 0
    many = json.dumps({"inputs": [""], "outputs": [" ".join(map(str, range(200_000)))]})
    assert UnitTests().verify("print(*range(200_000))", answer=many).reward == 1


@over(
    ("tests", "said"),
    [
        ({"inputs": [[1, 2]], "outputs": [3]}, "fn_name"),
        ({"fn_name": "f(", "inputs": [[1]], "outputs": [3]}, "no name of a function"),
        ({"fn_name": "class", "inputs": [[1]], "outputs": [3]}, "no name of a function"),
        ({"fn_name": "f", "inputs": [1], "outputs": [3]}, "lists of arguments"),
        ({"fn_name": "f", "inputs": [[1]], "outputs": []}, "neither asserts nor"),
        ({"fn_name": "f", "inputs": [], "outputs": []}, "one pair at least"),
        ([{"input": [1], "output": 3}], "fn_name"),
        ([1], "neither asserts nor"),
    ],
)
def test_calls_that_cannot_be_made_are_refused_before_the_run(tests: Any, said: str) -> None:
    assert said in (UnitTests().check(json.dumps(tests)) or "")


def test_a_call_is_one_test_each() -> None:
    found = forms_of(json.dumps(CALLS))
    assert isinstance(found, Calls) and found.source("f").count("assert ") == 2


@over("seconds", [10.0, 60.0])
def test_its_own_time_must_end_before_the_task_s(seconds: float) -> None:
    given: Any = {"verifier": "unit_tests", "verifier_options": {"seconds": seconds}}
    with pytest.raises(ConfigError, match=r"dataset\.timeout_s=10 is not allowed"):
        Dataset(path="rows.jsonl", **given)


@needs_one
def test_a_dataset_hands_it_columns(tmp_path: Any) -> None:
    rows = [{"prompt": f"{i}", "answer": "-", "tests": [f"assert f(1) == {i}"]} for i in range(20)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"tests_column": "tests"}
    given: Any = {"path": str(path), "verifier": "unit_tests", "verifier_options": options}
    task = Dataset(**given)
    prompt = task.problems(make.CODEC).train[0]
    assert task.slow
    assert task.verify(prompt, text=f"def f(x): return {prompt.text}").reward == 1
    assert task.verify(prompt, text="def f(x): return -1").reward == 0
    given["verifier_options"] = {"tests_column": "test"}
    with pytest.raises(TaskError, match=r"unit_tests\.tests_column is 'test', which is no column"):
        Dataset(**given).problems(make.CODEC)


def test_a_list_in_the_answer_column_is_asserts_that_have_all_to_hold() -> None:
    asserts = ("assert f(1) == 2", "assert f(2) == 4")
    prompt = Prompt(id="p", tokens=(), text="", answer=asserts[0], meta={ANSWERS: asserts})
    for program, reward in (("def f(x): return 2 * x", 1), ("def f(x): return x + 1", 0)):
        assert UnitTests().judge(prompt, text=program).reward == reward
