"""Tests a program in two boxes: one runs the program, the other the tests that compare."""

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from gfcr.sandbox.box import Box, SandboxError
from gfcr.sandbox.guests import examiner, subject, wire
from gfcr.sandbox.spec import Limits

_IMPORT: Final = "from gfcr.sandbox.guests.wire import"
_SLACK_S: Final = 10.0
"""Seconds that tests may take in addition to the program's own time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of running tests on a program."""

    passed: int
    total: int
    failed: str = ""
    """The first failure, in words; empty where nothing failed."""
    timed_out: bool = False


def examine(
    program: str,
    *,
    tests: str,
    entry: str = "",
    every: bool = False,
    limits: Limits,
    fallback: bool = False,
) -> Result:
    """Runs tests of asserts against a program's functions.

    Args:
        program: the source of a module; it is not run as `__main__`.
        tests: asserts that call it, or a function `check(candidate)`.
        entry: name of the function that `check` is given; may equal one of Python's own names.
        every: whether to go on after a test that fails.
        limits: limits of the program, for all tests together.
        fallback: whether to run without namespaces if these are not permitted, see `Box`.

    Raises:
        SandboxError: the sandbox failed, or the tests cannot be used: they are no valid
            Python, run for ever, or give the program a value that is not plain.
    """
    # The tests' own time must outlast the program's, or both look alike.
    longer = replace(limits, seconds=limits.seconds + _SLACK_S)
    asked = {"tests": tests, "entry": entry, "every": every}
    with (  # the program last: its time is running from then on
        Box(_guest(str(examiner.__file__)), limits=longer, fallback=fallback) as examining,
        Box(_guest(str(subject.__file__)), limits=limits, fallback=fallback) as answering,
    ):
        loaded = answering.ask(wire.dumps({"program": program}))
        if loaded is None:
            return _ended(answering, [0, 1])
        if said := _error(loaded):
            return Result(passed=0, total=1, failed=said)
        line = examining.ask(wire.dumps(asked))
        while line is not None:
            told: dict[str, Any] = json.loads(line)
            if "unsuited" in told:
                raise SandboxError(f"the tests are unsuited: {told['unsuited']}.")
            if "failed" in told:
                passed, total = told["progress"]
                return Result(passed=passed, total=total, failed=told["failed"])
            answer = answering.ask(line)
            if answer is None:
                return _ended(answering, told["progress"])
            line = examining.ask(answer)
        raise SandboxError(f"the tests did not end by themselves: {examining.close()['ended']}.")


def _error(line: bytes) -> str:
    try:
        told: Any = json.loads(line)
        return f"{told['error']}: {told['said']}" if "error" in told else ""
    except Exception:  # the program wrote it
        return "it wrote where the answers go"


def _ended(box: Box, progress: list[int]) -> Result:
    ended = box.close()
    kind = "it wrote too much" if box.flooded else f"it ended: {ended['ended']} {ended['code']}"
    over = ended["ended"] == "timeout"
    said = "its time was over" if over else kind
    return Result(passed=progress[0], total=progress[1], failed=said, timed_out=over)


@cache
def _guest(file: str) -> str:
    """Returns a guest's script in a single file, as it cannot import gfcr's modules inside."""
    own, shared = (Path(path).read_text(encoding="utf-8") for path in (file, str(wire.__file__)))
    kept = [line for line in own.splitlines() if not line.startswith(_IMPORT)]
    return shared + "\n" + "\n".join(kept) + "\n"
