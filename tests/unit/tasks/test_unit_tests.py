"""Programs under unit tests: the forms of tests, the verdicts, what is unscorable."""

import json
from typing import Any

import pytest

from gfcr.errors import ConfigError, TaskError
from gfcr.sandbox.box import why_not
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.verifiers.unit_tests import UnitTests, pairs_of, problem
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
        ("print(int(input()) + 1)\nraise SystemExit(1)", 0.0, 0.0),
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
    unsuited = UnitTests().verify("def f(g): return g(1)", answer="assert f(lambda x: x) == 1")
    assert unsuited.reward is None and "unsuited" in str(unsuited.error)
    for answer in ("no tests", "x = 1", "{}", "[]", '{"inputs": ["1"], "outputs": []}', "12"):
        verdict = UnitTests().verify(RIGHT, answer=answer)
        assert verdict.reward is None and verdict.error and UnitTests().check(answer)


@needs_one
def test_library_names_that_tests_use_are_python_s_own() -> None:
    """Where several names are free, a program cannot give its own `isclose`."""
    lie = "def isclose(a, b): return True\ndef Counter(x): return 0\ndef f(x): return 0"
    for answer in ("assert isclose(f(1), 2)", "assert Counter(f(1)) == Counter([2])"):
        assert UnitTests().verify(lie, answer=answer).reward == 0
    assert UnitTests().verify("def gcd(a, b): return 4", answer="assert gcd(1, 2) == 4").reward == 1


def test_forms_of_tests() -> None:
    assert pairs_of('["assert a", "assert b"]') == "assert a\nassert b"
    assert pairs_of(json.dumps(PAIRS)) == [("1\n", "2"), ("41", "42 \n\n")]
    assert problem("assert (") and problem("print(1)") and not problem("assert f()")


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
