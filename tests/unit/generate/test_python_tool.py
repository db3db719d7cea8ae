"""The Python tool: what a program prints is its answer, and nothing that it does ends the run."""

import itertools
import os
import resource
import time
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.generate.multi_turn import MultiTurn
from gfcr.generate.tools import python
from gfcr.generate.tools.base import ToolError
from gfcr.generate.tools.python import Python
from gfcr.sandbox.box import Box, SandboxError, why_not
from gfcr.testing import factories as make
from gfcr.types import FinishReason
from tests.cases import over
from tests.tools import said

needs_one = pytest.mark.skipif(bool(why_not()), reason="no sandbox here")


def answer(program: str, **settings: Any) -> str:
    return said(Python(**settings), f"so: <tool_call>{program}")


@needs_one
@over(
    ("program", "said"),
    [
        ("print(6 * 7)", "42"),
        ("```python\nfor i in range(3):\n    print(i)\n```", "0\n1\n2"),
        ("x = 1", ""),
        ("print(1); 1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "exit 3"),
        ("print(1); exit()", "1"),
        ("import os; os.kill(os.getpid(), 9)", "exit 137"),
        ("print('é')", "é"),
        ("\0", "SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_a_program_s_output_is_its_answer_or_its_error_s_last_line(program: str, said: str) -> None:
    assert answer(program) == said


@pytest.mark.slow
@needs_one
@over(
    ("program", "said"),
    [
        ("while True: pass", "TimeoutError: killed after 0.5 s"),
        # Its processes all write at once: any line of any of them may come last.
        ("import os\nwhile True: os.fork()", ""),
        ("open('/etc/passwd').read()", "FileNotFoundError: "),
        ("open('/root/x', 'w')", "Error: "),
        ("import socket; socket.create_connection(('127.0.0.1', 80), 1)", "Error: "),
        ("x = ' ' * 2**40", "MemoryError"),
        ("while True: print('x' * 10**6)", "x" * 20 + "..."),
        ("import sys; sys.stderr.write('x' * 10**7)", "..."),
        ("import time; time.sleep(9)", "TimeoutError: killed after 0.5 s"),
    ],
)
def test_a_hostile_program_is_bounded_and_answered(program: str, said: str) -> None:
    began = time.monotonic()
    # Those that end by themselves have the time that a busy machine takes for them.
    seconds = 5.0 if "Error: " in said and "0.5 s" not in said else 0.5
    found = answer(program, seconds=seconds, most_chars=20 if "xx" in said else 200)
    assert found and said in found and len(found) <= 203
    assert time.monotonic() - began < 10


@needs_one
def test_nothing_is_left_of_an_earlier_call() -> None:
    assert answer("open('/tmp/x', 'w').write('1'); print(1)") == "1"
    assert "FileNotFoundError" in answer("open('/tmp/x')")


@needs_one
def test_the_last_program_counts() -> None:
    assert said(Python(opening="["), "[print(1)] is 1, [print(2)") == "2"


def test_a_call_without_a_program_is_none() -> None:
    with pytest.raises(ToolError, match=r"no '<tool_call>' before the call"):
        said(Python(), "print(1)")


def test_without_a_sandbox_it_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(python, "why_not", lambda *, fallback: None if fallback else "no room.")
    with pytest.raises(ConfigError, match=r"python\.fallback=False: no room\."):
        MultiTurn(tool=Python()).check(make.CODEC.encode)
    MultiTurn(tool=Python(fallback=True)).check(make.CODEC.encode)


def ran(program: str) -> list[Any]:
    """Rollouts of a policy that runs a program, in the letters of `make.CODEC`, and goes on."""
    plan = {"tool": {"name": "python", "opening": "#"}}
    strategy = strategies.load("multi_turn", group_size=2, generate=plan)

    def text_of(request: Any) -> str:
        completion = make.CODEC.decode(request.tokens).partition("=")[2]
        return f"#{program}=" if not completion else ",7"

    pipeline = make.pipeline(strategy, script=make.scripted(text_of), prompts=2)
    batch = pipeline.next_batch()
    pipeline.close()
    return [r for g in batch.groups for r in g.rollouts]


@needs_one
def test_an_answer_that_the_vocabulary_cannot_write_is_an_error() -> None:
    assert {r.text for r in ran("2+3")} == {"#2+3=,7"}, "it prints nothing"
    assert {r.text for r in ran("2+")} == {"#2+=?,7"}, "SyntaxError: invalid syntax"


@needs_one
def test_a_sandbox_that_fails_costs_its_rollouts_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = itertools.count()

    def broken(source: str, **limits: Any) -> Box:
        if next(begun) % 2:
            raise SandboxError("the launcher is gone")
        return Box(source, **limits)

    monkeypatch.setattr(python, "Box", broken)
    rollouts = ran("2+3")
    lost = [r for r in rollouts if r.finish == FinishReason.ERROR]
    assert (len(lost), len(rollouts)) == (2, 4)
    assert all("the launcher is gone" in str(r.error) for r in lost)


@needs_one
def test_a_program_has_no_descriptor_but_its_own_where_many_are_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 6000:
        pytest.skip("5,000 files may not be opened here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 6000), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(5000)]
    try:
        tries = "for n in range(3, 6000):\n try: os.fstat(n)\n except OSError: continue\n print(n)"
        with Box(f"import os\n{tries}") as box:
            found = box.finish()
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.ended == "exit" and not found.output
