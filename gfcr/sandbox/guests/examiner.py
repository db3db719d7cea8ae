"""Runs tests, in a sandbox of its own, of a program that runs in another.

Names that tests do not define stand for the program's; calls of them go over the wire, and answers
are rebuilt as Python's own plain values. The program so decides what it answers, never whether a
test holds: it can neither see the tests nor reach the code that compares.
"""

import ast
import builtins
import importlib
import json
import os
import sys
from collections.abc import Coroutine, Iterator
from functools import partialmethod
from typing import Any, final

from gfcr.sandbox.guests.wire import UnsendableError, dumps, pack, unpack

_LIBRARY = ("collections", "math", "itertools", "functools", "re", "heapq", "copy", "typing")


class ProgramError(Exception):
    """The program raised no built-in exception, or its answer cannot be read."""


class Wire:
    """The connection to the program, through the process that started both."""

    def __init__(self) -> None:
        """Keeps input and output for its own messages, since tests may print."""
        self._heard, self._out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self.progress = [0, 0]

    def read(self) -> Any:
        """Reads the next message."""
        return json.loads(self._heard.readline())

    def tell(self, message: dict[str, Any]) -> None:
        """Sends one message."""
        self._out.write(dumps(message) + b"\n")
        self._out.flush()

    def ask(self, do: str, of: str | int, *args: Any, **named: Any) -> Any:
        """Makes one call of the program, and copies its changes of mutable arguments back."""
        packed = [pack(a, keep=_number_of) for a in args]
        sent = {n: pack(a, keep=_number_of) for n, a in named.items()}
        self.tell({"do": do, "of": of, "args": packed, "named": sent, "progress": self.progress})
        try:
            answer = self.read()
            if "error" in answer:
                raised, said = str(answer["error"]), str(answer["said"])
            else:
                value = unpack(answer["value"], held=self._stand_in)
                _change(args, unpack(answer["args"], held=self._stand_in))
                return value
        except Exception as error:
            raise ProgramError("no answer") from error
        raise _exception(raised)(said)

    def _stand_in(self, number: int) -> "Held | Coroutine[Any, Any, Any]":
        return Held(self, int(number)) if number >= 0 else self._awaited(~int(number))

    async def _awaited(self, number: int) -> Any:
        return self.ask("await", number)


@final
class Held:
    """A stand-in for an object of the program that is no plain value, and equal to none of them."""

    def __init__(self, wire: Wire, of: str | int) -> None:
        self.__dict__.update(_wire=wire, _of=of)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Calls the program's object."""
        return self._wire.ask("call", self._of, *args, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._wire.ask("get", self._of, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._wire.ask("set", self._of, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._wire.ask("item", self._of, key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._wire.ask("iter", self._of))

    def __len__(self) -> int:
        return self._wire.ask("len", self._of)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, value: Any) -> bool:
        try:
            return value in list(self)
        except TypeError as error:
            raise UnsendableError("what its object holds, the program alone can tell") from error

    def __instancecheck__(self, value: Any) -> bool:
        return self._wire.ask("isinstance", self._of, value) is True

    def __eq__(self, other: object) -> bool:
        if self is not other:
            pack(other)  # only the program, which is not to decide, can compare two such objects
        return self is other

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return str(self._wire.ask("str", self._of))

    def __repr__(self) -> str:
        return str(self._wire.ask("repr", self._of))

    def __next__(self) -> Any:
        return self._wire.ask("next", self._of)

    def _with(self, do: str, other: object) -> Any:
        # Of a value of the tests it could make whatever they want, `abs(f() - 0.5) < 1e-9`.
        return self._wire.ask(do, self._of, other) if type(other) is Held else NotImplemented

    __add__ = partialmethod(_with, "add")
    __sub__ = partialmethod(_with, "sub")
    __mul__ = partialmethod(_with, "mul")
    __truediv__ = partialmethod(_with, "truediv")


def _number_of(value: Any) -> int:
    of = value.__dict__.get("_of") if type(value) is Held else None
    if not isinstance(of, int):
        raise UnsendableError(f"tests give the program a {type(value).__name__}")
    return of


def _change(args: tuple[Any, ...], now: Any) -> None:
    for before, after in zip(args, now, strict=True):
        kind = type(before).__name__
        if kind != type(after).__name__:
            continue
        if kind in ("list", "bytearray"):
            before[:] = after
        elif kind in ("set", "dict"):
            before.clear()
            before.update(after)


def _exception(name: str) -> type[Exception]:
    found: Any = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else ProgramError


def bound(tree: ast.Module, *, entry: str, wire: Wire) -> dict[str, Any]:
    """Returns the tests' global names, with stand-ins for those that the program has to define."""
    nodes = list(ast.walk(tree))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    own = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    own |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own |= {n.name for n in nodes if isinstance(n, ast.AsyncFunctionDef)}
    own |= {a.asname or a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}
    called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    modules = {n.id for n in names} & sys.stdlib_module_names - called - {entry}
    found: dict[str, Any] = {name: importlib.import_module(name) for name in modules}
    free = {n.id for n in names} - own - modules
    theirs = free - {*dir(builtins)}
    if not (theirs or entry) and len(free & called) == 1:
        theirs = free & called  # `sum(10, 15)` of MBPP, where there is nothing else to test
    library = {name: made for name in theirs if (made := _in_library(name))}
    if entry or theirs > library.keys():  # else there would be nothing to test
        found |= library
    stand_ins = theirs - found.keys() | ({entry} if entry else set[str]())
    if values := _valued(nodes) & stand_ins:
        raise UnsendableError(f"they take the program's {min(values)} for a value, or catch it")
    return found | {name: Held(wire, name) for name in stand_ins} | {"__name__": "tests"}


def _valued(nodes: list[ast.AST]) -> set[str]:
    """Returns names that are compared, caught, entered or waited for: what no stand-in can be."""
    handlers = [n for n in nodes if isinstance(n, ast.ExceptHandler)]
    found: list[ast.AST | None] = [n.type for n in handlers]
    compared = [n for n in nodes if isinstance(n, ast.Compare)]
    equal = [n for n in compared if not isinstance(n.ops[0], ast.Is | ast.IsNot)]  # `is not None`
    found += [e for n in equal for e in (n.left, *n.comparators)]
    entered = [n.context_expr for n in nodes if isinstance(n, ast.withitem)]
    entered += [n.iter for n in nodes if isinstance(n, ast.AsyncFor)]
    entered += [n.iter for n in nodes if isinstance(n, ast.comprehension) and n.is_async]
    found += [e.func if isinstance(e, ast.Call) else e for e in entered]
    found += [e for n in found if isinstance(n, ast.Tuple) for e in n.elts]
    local = {n.arg for n in nodes if isinstance(n, ast.arg)} | {n.name for n in handlers}
    return {n.id for n in found if isinstance(n, ast.Name)} - local


def _in_library(name: str) -> Any:
    """Returns what a name of several letters is without import; a program must not replace it."""
    modules = map(importlib.import_module, _LIBRARY) if name[1:] else ()
    return next((found for m in modules if (found := getattr(m, name, None))), None)


def parsed(tests: str, *, entry: str) -> ast.Module:
    """Parses the tests, and adds the call of their function `check` where it is missing."""
    tree = ast.parse(tests)
    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    at_top = [n for n in tree.body if isinstance(n, ast.Expr)]
    if entry and "check" in defined and not any("check(" in ast.unparse(n) for n in at_top):
        tree.body += ast.parse(f"check({entry})").body
    return tree


def examine(wire: Wire, *, tests: str, entry: str, every: bool) -> str:
    """Runs the tests, all or up to the first failure; returns that failure or an empty text."""
    tree = parsed(tests, entry=entry)
    names = bound(tree, entry=entry, wire=wire)
    wire.progress[1] = sum(map(_counts, tree.body))
    failed = ""
    for statement in tree.body:
        counts = _counts(statement)
        try:
            exec(compile(ast.Module([statement], []), "tests.py", "exec"), names)
        except UnsendableError:
            raise
        except Exception as error:
            said = f"{type(error).__name__} in `{ast.unparse(statement)[:80]}`"
            failed = failed or said
            if not (every and counts):
                break
        else:
            wire.progress[0] += counts
    return failed


def _counts(statement: ast.stmt) -> bool:
    """Tells whether a statement is a test, rather than preparation for one.

    What is under `if __name__ == "__main__"` is none: it is never run here.
    """
    if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
        return False
    return isinstance(statement, ast.Assert | ast.Expr | ast.For | ast.Try | ast.With | ast.If)


def main() -> None:
    """Runs one examination."""
    wire = Wire()
    request = wire.read()
    try:
        failed = examine(wire, **request)
    except (UnsendableError, SyntaxError) as error:
        wire.tell({"unsuited": str(error)[:200]})
        return
    wire.tell({"failed": failed, "progress": wire.progress})


if __name__ == "__main__":
    main()
