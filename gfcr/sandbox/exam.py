"""Tests of a program in two boxes: what it answers in one, what compares in the other."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from gfcr.sandbox.box import Box, SandboxError
from gfcr.sandbox.guests import examiner, subject, wire
from gfcr.sandbox.spec import Limits

_IMPORT: Final = "from gfcr.sandbox.guests.wire import"
_SLACK_S: Final = 10.0
"""That tests may take beside the program's own time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What tests said of a program."""

    passed: int
    total: int
    failed: str = ""
    """What failed first, in words; empty where nothing did."""
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
        entry: the function that `check` is given, and that may be named like one of Python's own.
        every: goes on behind a test that fails.
        limits: of the program, for all tests together.
        fallback: see `Box`.

    Raises:
        SandboxError: the sandbox failed, or the tests can be no tests of a program: they are no
            Python, run for ever, or give it what is no plain value.
    """
    # The tests' own time must outlast the program's, or both look alike.
    longer = Limits(seconds=limits.seconds + _SLACK_S, memory_mib=limits.memory_mib)
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
    """A script of one file: nothing of ours can be imported within."""
    own, shared = (Path(path).read_text(encoding="utf-8") for path in (file, str(wire.__file__)))
    kept = [line for line in own.splitlines() if not line.startswith(_IMPORT)]
    return shared + "\n" + "\n".join(kept) + "\n"
