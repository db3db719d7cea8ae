"""Loads a program in a sandbox and makes the calls that are asked for, line by line.

Its answers are not trusted, see `gfcr.sandbox.guests.examiner`.
"""

import __future__

import importlib
import json
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Any

from gfcr.sandbox.guests.wire import dumps, pack, unpack


def _awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return importlib.import_module("asyncio").run(coroutine)  # takes a while


_DO: dict[str, Callable[..., Any]] = {
    "call": operator.call,
    "get": getattr,
    "set": setattr,
    "item": operator.getitem,
    "len": len,
    "str": str,
    "isinstance": type.__instancecheck__,
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv")},
    "next": next,
    "repr": repr,
    "await": _awaited,
}
_MOST_ITEMS = 100_000
_TYPES = ("Any", "Callable", "Dict", "List", "Optional", "Set", "Tuple", "Union")
"""Names that programs annotate with, and that the judges of contests have imported."""


class Subject:
    """A program loaded as a module, and the objects that its calls have returned."""

    def __init__(self, source: str) -> None:
        """Loads the program from its source."""
        self._module = types.ModuleType("program")
        sys.modules["program"] = self._module
        self._held: list[Any] = []
        vars(self._module).update({name: getattr(typing, name) for name in _TYPES})
        # A judge of contests has classes such as `ListNode`, which a signature alone may name.
        late = __future__.annotations.compiler_flag
        exec(compile(source, "program.py", "exec", late), vars(self._module))

    def answer(self, request: dict[str, Any]) -> Any:
        """Makes one call; returns its value, and the arguments as they are afterwards."""
        of = request["of"]
        target = self._named(of) if isinstance(of, str) else self._held[of]
        given = [unpack(a, held=self._held.__getitem__) for a in request["args"]]
        named = {n: unpack(a, held=self._held.__getitem__) for n, a in request["named"].items()}
        do = request["do"]
        value = [*islice(target, _MOST_ITEMS)] if do == "iter" else _DO[do](target, *given, **named)
        return {"value": pack(value, keep=self._keep), "args": pack(given, keep=self._keep)}

    def _named(self, name: str) -> Any:
        """Returns what the program calls so, or that method of its class Solution."""
        names = vars(self._module)
        if name not in names and "Solution" in names:
            return getattr(names["Solution"](), name)
        return names[name]

    def _keep(self, value: Any) -> int:
        self._held.append(value)
        of = len(self._held) - 1
        return ~of if isinstance(value, types.CoroutineType) else of  # negative: to be awaited


def main() -> None:
    """Answers requests until its input ends."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what it prints is no answer
    subject: Subject | None = None
    for line in asked:
        try:
            request: Any = json.loads(line)
            if subject is None:
                subject, answer = Subject(request["program"]), {"value": None}
            else:
                answer = subject.answer(request)
        except BaseException as error:  # the program's, SystemExit among them
            # The tests know Python's exceptions alone, of which the program's own are kinds.
            known = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
            answer = {"error": known.__name__, "said": str(error)[:200]}
        answers.write(dumps(answer) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
