"""A program run against unit tests, in a sandbox."""

import ast
import json
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, ClassVar, Final, final

from annotated_types import Interval

from gfcr.errors import TaskError
from gfcr.sandbox.box import Box, SandboxError, why_not
from gfcr.sandbox.exam import Result, examine
from gfcr.sandbox.spec import Limits
from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers._test_forms import Calls, forms_of
from gfcr.tasks.verifiers.base import ANSWERS, Verifier
from gfcr.types import Prompt
from gfcr.values.fenced import last_block
from gfcr.values.ranges import Word

_UNCALLED: Final = (
    "the tests call nothing: a function `check` needs entry_column, and tests in classes, in "
    "functions with arguments or under `__main__` are not called: give asserts at the top level"
)
_OUTPUT_KIB: Final = 32 << 10
"""What a program may write, and one value be: a list of a million numbers."""


@final
@dataclass(frozen=True, kw_only=True)
class UnitTests(Verifier):
    """1 if the completion's program passes the answer's unit tests, run in a sandbox.

    The program is the last fenced block, or the whole text. The answer holds asserts that call its
    functions, a function `check(candidate)`, or JSON: a list of asserts, `{inputs, outputs}`, or a
    list of `{input, output}`, texts for standard input and output (compared line by line, without
    white space at their ends; lines of numbers as numbers, as LiveCodeBench does). With `fn_name`,
    inputs are lists of arguments of that function, or of that method of `class Solution`, and
    outputs its values (APPS, LiveCodeBench): compared as JSON has them, a tuple as a list, floats
    within 1e-9. `List` and its like need no import, and what annotations name need not be there.

    What compares runs apart from the program, which sees neither tests nor verdict: leaving early,
    printing success or answering objects equal to everything passes nothing. A program that fails,
    crashes or takes too long is worth 0; where the sandbox fails, or only the program could compare
    two of its objects or say what one holds, it is unscorable.

    Hurts with weak tests, whose gaps the policy learns; only the standard library is there. Each
    verification starts two processes or more, a tenth of a second and up.
    """

    origin: ClassVar[str] = "ours"
    slow = True

    share: bool = False
    """Whether to give the share of tests that pass, instead of 1 for all and 0 otherwise."""
    entry_column: Word = ""
    """Column with the name of the function that `check` is given."""
    tests_column: Word = ""
    """Column with the tests, a text or a list; empty takes the answer."""
    seconds: Annotated[float, Interval(gt=0, le=3600)] = 6.0
    """Seconds for all tests of a program together, less than `dataset.timeout_s`. Each pair of
    input and output starts the program anew, a tenth of a second: give more for tens of them."""
    memory_mib: Annotated[int, Interval(ge=64, le=1_000_000)] = 512
    fallback: bool = False
    """Whether to use seccomp alone without namespaces: programs can read files then."""

    @property
    def columns(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on fields
        """Returns whether it reads any column."""
        return bool(self.entry_column or self.tests_column)

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Runs tests that need no column."""
        return self._verdict(text, tests=answer, entry="")

    def judge(self, prompt: Prompt, *, text: str) -> Verdict:
        """Runs the prompt's tests; several answers are asserts that have all to hold."""
        own = prompt.meta.get(ANSWERS, prompt.answer)
        given: Any = prompt.meta.get(self.tests_column) if self.tests_column else own
        tests = given if isinstance(given, str) else json.dumps(given)
        return self._verdict(text, tests=tests, entry=str(prompt.meta.get(self.entry_column) or ""))

    def check(self, answer: str) -> str | None:
        """Returns why the answer holds no tests, unless a column does."""
        return None if self.tests_column else problem(answer)

    def lacks(self, columns: Collection[str]) -> str | None:
        """Returns a missing column, or None; refuses a machine without a sandbox.

        Raises:
            TaskError: this machine has no sandbox.
        """
        if why := why_not(fallback=self.fallback):
            raise TaskError(f"unit_tests.fallback={self.fallback}: {why}")
        wanted = {"entry_column": self.entry_column, "tests_column": self.tests_column}
        missing = (f"unit_tests.{k} is '{n}'" for k, n in wanted.items() if n and n not in columns)
        return next(missing, None)

    def _verdict(self, text: str, *, tests: str, entry: str) -> Verdict:
        if said := problem(tests):
            return Verdict(reward=None, error=f"the tests cannot be run: {said}")
        try:
            result = self._run(last_block(text), tests=tests, entry=entry)
        except SandboxError as error:
            return Verdict(reward=None, error=str(error))
        if not result.failed and not result.total:
            return Verdict(reward=None, error=_UNCALLED)
        right, share = not result.failed, result.passed / max(1, result.total)
        scores = {"tests_passed": 1.0 if right else share, "timed_out": float(result.timed_out)}
        return Verdict(reward=scores["tests_passed"] if self.share else float(right), scores=scores)

    def _run(self, program: str, *, tests: str, entry: str) -> Result:
        found = forms_of(tests)
        if isinstance(found, Calls):
            entry = found.entry or entry
            if not entry:
                raise SandboxError("the tests call a function without a name: give entry_column.")
            found = found.source(entry)
        if not isinstance(found, str):
            return self._run_pairs(program, found)
        limits, loose = self._limits(self.seconds), self.fallback
        return examine(
            program, tests=found, entry=entry, every=self.share, limits=limits, fallback=loose
        )

    def _run_pairs(self, program: str, pairs: list[tuple[str, str]]) -> Result:
        passed, failed, late, left = 0, "", False, self.seconds
        for given, wanted in pairs:
            began = time.monotonic()
            with Box(program, limits=self._limits(left), fallback=self.fallback) as box:
                outcome = box.finish(given.encode())
            left -= time.monotonic() - began  # boxes take time to begin and to end, too
            ended, written = (outcome.ended, outcome.code), outcome.output.decode(errors="replace")
            right = ended == ("exit", 0) and _same(written, wanted)
            passed += right
            failed = failed or ("" if right else f"{outcome.ended} {outcome.code}")
            late = outcome.ended == "timeout" or left <= 0
            if late or (failed and not self.share):
                break
        if late and passed < len(pairs):
            failed = failed or "its time was over"
        late = late and bool(failed)
        return Result(passed=passed, total=len(pairs), failed=failed, timed_out=late)

    def _limits(self, seconds: float) -> Limits:
        return Limits(seconds=seconds, memory_mib=self.memory_mib, output_kib=_OUTPUT_KIB)


def problem(tests: str) -> str | None:
    """Returns why a text holds no tests, or None."""
    try:
        found = forms_of(tests)
        if not isinstance(found, str):
            return None
        nodes = [*ast.walk(ast.parse(found))]
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return str(error)
    tries = [n for n in nodes if isinstance(n, ast.Try) and n.handlers]  # they do without it
    left = {*nodes} - {n for each in tries for step in each.body for n in ast.walk(step)}
    named = {a.name for n in left if isinstance(n, ast.Import) for a in n.names}
    named |= {n.module or "." for n in left if isinstance(n, ast.ImportFrom)}
    for name in sorted(named):
        if name.partition(".")[0] not in sys.stdlib_module_names:
            return f"it imports {name}, and only the standard library is there"
    return None if any(isinstance(n, ast.Assert) for n in nodes) else "it holds no assert"


def _same(written: str, wanted: str) -> bool:
    mine, theirs = ([t.rstrip() for t in of.rstrip().splitlines()] for of in (written, wanted))
    if len(mine) != len(theirs):
        return False
    return all(a == b or _numbers(a) == _numbers(b) for a, b in zip(mine, theirs, strict=True))


def _numbers(line: str) -> Sequence[object]:
    """Returns the numbers that a line consists of, and the line where it does not."""
    try:
        return [Decimal(word) for word in line.split()]
    except InvalidOperation:
        return line
