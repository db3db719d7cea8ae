"""Loads a program in a sandbox and makes the calls that are asked for, line by line.

Its answers are not trusted, see `gfcr.sandbox.guests.examiner`.
"""

import json
import os
import sys
import types
import typing
from typing import Any

from gfcr.sandbox.guests.wire import dumps, pack, unpack

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
        exec(compile(source, "program.py", "exec"), vars(self._module))

    def answer(self, request: dict[str, Any]) -> Any:
        """Makes one call; returns its value, and the arguments as they are afterwards."""
        of = request["of"]
        target = self._named(of) if isinstance(of, str) else self._held[of]
        given = [unpack(a, held=self._held.__getitem__) for a in request["args"]]
        named = {n: unpack(a, held=self._held.__getitem__) for n, a in request["named"].items()}
        match request["do"]:
            case "call":
                value = target(*given, **named)
            case "get":
                value = getattr(target, given[0])
            case "item":
                value = target[given[0]]
            case "len":
                value = len(target)
            case "str":
                value = str(target)
            case "in":
                value = given[0] in target
            case _:
                value = [v for v, _ in zip(target, range(_MOST_ITEMS), strict=False)]
        return {"value": pack(value, keep=self._keep), "args": pack(given, keep=self._keep)}

    def _named(self, name: str) -> Any:
        """Returns what the program calls so, or that method of its class Solution."""
        names = vars(self._module)
        if name not in names and "Solution" in names:
            return getattr(names["Solution"](), name)
        return names[name]

    def _keep(self, value: Any) -> int:
        self._held.append(value)
        return len(self._held) - 1


def main() -> None:
    """Answers requests until its input ends."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what it prints is no answer

    def tell(message: Any) -> None:
        left = memoryview(dumps(message) + b"\n")
        while left:
            left = left[os.write(answers, left) :]

    subject: Subject | None = None
    for line in asked:
        try:
            request: Any = json.loads(line)
            if subject is None:
                subject, answer = Subject(request["program"]), {"value": None}
            else:
                answer = subject.answer(request)
        except BaseException as error:  # the program's, SystemExit among them
            answer = {"error": type(error).__name__, "said": str(error)[:200]}
        tell(answer)


if __name__ == "__main__":
    main()
