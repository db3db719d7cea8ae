"""The forms in which data sets of programs write their tests: asserts, pairs of texts, calls."""

import json
import keyword
import re
from typing import Any, NamedTuple, cast

_SOURCE = """
from json import loads as _loads
from math import isclose as _isclose

def _alike(given, wanted):
    if isinstance(wanted, list):
        same = isinstance(given, (list, tuple)) and len(given) == len(wanted)
        return same and all(_alike(a, b) for a, b in zip(given, wanted))
    if isinstance(wanted, dict):
        named = {str(key): value for key, value in given.items()} if isinstance(given, dict) else {}
        same = isinstance(given, dict) and named.keys() == wanted.keys()
        return same and all(_alike(named[key], wanted[key]) for key in wanted)
    if isinstance(given, float) or isinstance(wanted, float):
        numbers = all(isinstance(value, (int, float)) for value in (given, wanted))
        if given != given and wanted != wanted:  # both are NaN
            return numbers
        return numbers and (given == wanted or _isclose(given, wanted, rel_tol=1e-9, abs_tol=1e-12))
    return type(given) in (str, int, bool, type(None)) and given == wanted

def _right(given, wanted):
    return _alike(given, wanted) or (WRAPPED and _alike(given, wanted[0]))

"""
"""What compares, in the box of the tests: as JSON has values, where a tuple is a list."""


class Calls(NamedTuple):
    """Calls of one function."""

    entry: str
    """Its name; empty where a column of the dataset has it."""
    arguments: list[list[Any]]
    wanted: list[Any]

    def source(self, entry: str) -> str:
        """Writes the calls as asserts.

        Args:
            entry: the function's name.
        """
        # APPS has each value in a list of its own.
        wrapped = all(isinstance(w, list) and len(cast("list[Any]", w)) == 1 for w in self.wanted)
        cases = json.dumps([*zip(self.arguments, self.wanted, strict=True)])
        asserts = (
            f"assert _right({entry}(*_cases[{i}][0]), _cases[{i}][1])"
            for i in range(len(self.wanted))
        )
        source = _SOURCE.replace("WRAPPED", str(wrapped))
        return f"{source}_cases = _loads({cases!r})\n" + "\n".join(asserts)


def forms_of(tests: str) -> str | Calls | list[tuple[str, str]]:
    """Parses tests: asserts as one text, calls, or pairs of standard input and output.

    Raises:
        ValueError: the JSON is none of these.
    """
    try:
        found: Any = json.loads(tests)
    except ValueError:
        return _called(tests)
    if isinstance(found, list):
        items = cast("list[Any]", found)
        if items and all(type(test) is str for test in items):
            return "\n".join(items)
        found = _joined(items)
    try:
        inputs, outputs, entry = found["inputs"], found["outputs"], found.get("fn_name")
        cases: list[tuple[Any, Any]] = list(zip(inputs, outputs, strict=True))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError("it is JSON of neither asserts nor inputs and outputs") from error
    if not cases:
        raise ValueError("inputs and outputs must be one pair at least")
    return _pairs(cases) if entry is None else _calls(cases, entry=entry)


def _called(tests: str) -> str:
    """Returns asserts with calls of the functions that pytest would call (KodCode)."""
    calls = (f"{name}()" for name in re.findall(r"^def (test\w*)\(\)", tests, re.MULTILINE))
    own = re.sub(r"(?m)^from solution import (?:\([^)]*\)|.*)", "", tests)
    return "\n".join([own, *calls])


def _joined(items: list[Any]) -> dict[str, Any] | None:
    """Returns `[{input, output}]` as `{inputs, outputs}`; LiveCodeBench calls some functional."""
    try:
        made: dict[str, Any] = {
            "inputs": [item["input"] for item in items],
            "outputs": [item["output"] for item in items],
        }
        first: dict[str, Any] = items[0]
        if first.get("testtype") != "functional":
            return made
        metadata: dict[str, Any] = first.get("metadata") or {}
        return {**made, "fn_name": metadata.get("func_name", "")}
    except (TypeError, KeyError, IndexError, AttributeError):
        return None


def _pairs(cases: list[tuple[Any, Any]]) -> list[tuple[str, str]]:
    pairs = [(_lines(given), _lines(wanted)) for given, wanted in cases]
    if not all(isinstance(text, str) for pair in pairs for text in pair):
        raise ValueError(
            "inputs and outputs must be texts, or lists of lines; calls of a function have its "
            "name too, `fn_name`"
        )
    return pairs


def _lines(given: Any) -> Any:
    """Returns a list of lines as one text."""
    lines = cast("list[Any]", given) if isinstance(given, list) else []
    whole = lines and all(isinstance(line, str) for line in lines)
    return cast("Any", "\n".join(lines) if whole else given)


def _calls(cases: list[tuple[Any, Any]], *, entry: Any) -> Calls:
    if (
        not isinstance(entry, str)
        or (entry and not entry.isidentifier())
        or keyword.iskeyword(entry)
    ):
        raise ValueError(f"fn_name={entry!r} is no name of a function")
    texts = all(isinstance(given, str) for given, _ in cases)
    if texts:  # LiveCodeBench: a line of JSON for each argument, and one for the value
        cases = [([_json(a) for a in given.splitlines()], _json(out)) for given, out in cases]
    if not all(isinstance(given, list) for given, _ in cases):
        raise ValueError("inputs of calls must be lists of arguments, or texts of one a line")
    return Calls(entry, [given for given, _ in cases], [wanted for _, wanted in cases])


def _json(text: Any) -> Any:
    """Returns the value that a text is JSON of; any other text is itself."""
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text
