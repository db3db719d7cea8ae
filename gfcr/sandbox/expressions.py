"""Evaluates an expression in x for several values of x, in a box."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, cast

from gfcr.sandbox.box import Box
from gfcr.sandbox.spec import Limits

MOST: Final = 10**6
"""The largest absolute value that is accepted."""

_RUNNER: Final = """
import json, sys, warnings
warnings.simplefilter("ignore")
program, inputs, most = json.loads(sys.stdin.readline())
values = []
for x in inputs:
    try:
        value = eval(program, {"x": x})
    except Exception:
        value = None
    values.append(value if type(value) is int and abs(value) <= most else None)
print(json.dumps(values))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The outcome of evaluating an expression."""

    values: tuple[int | None, ...] = ()
    """One value for each x; None where it raised an error, or gave no integer up to `MOST`."""
    problem: str = ""
    """Why there are no values: `timeout`, `output` or `exit`."""


def run(program: str, *, inputs: Sequence[int], limits: Limits, fallback: bool = False) -> Ran:
    """Evaluates an untrusted Python expression in a box.

    Raises:
        SandboxError: no box can be made to run it in.
    """
    with Box(_RUNNER, limits=limits, fallback=fallback) as box:
        outcome = box.finish(json.dumps([program, [*inputs], MOST]).encode() + b"\n")
    if outcome.ended != "exit":
        return Ran(problem=outcome.ended)
    try:
        values: Any = json.loads(outcome.output)
    except ValueError:
        return Ran(problem="exit" if outcome.code else "output")
    # The program may have written in the place of its runner: what it wrote is as good as its word.
    found = cast("list[Any]", values) if isinstance(values, list) else []
    if len(found) != len(inputs) or not {*map(type, found)} <= {int, NoneType}:
        return Ran(problem="output")
    return Ran(values=tuple(found))
