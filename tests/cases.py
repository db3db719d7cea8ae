"""One test over many cases: all are tried, and its failure lists every one that failed.

`pytest.mark.parametrize` is for cases whose set-up costs a second, or that have marks of their own.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]


def over(
    names: str | tuple[str, ...] | list[str],
    cases: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    ids: Any = None,
) -> Callable[[Test], Test]:
    """Calls the test for each case; names, cases and ids are those of `parametrize`.

    Cases that take time to find are given as a function, which is called when the test runs. Each
    case has a `tmp_path` of its own, and what `monkeypatch` changed is undone behind it.
    """
    found = cases if callable(cases) else list(cases)
    assert found, "there are no cases"
    keys = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def tried(**fixtures: Any) -> None:
            failed = list[Exception]()
            held = list(found() if callable(found) else found)
            assert held, "there are no cases"
            for number, case in enumerate(held):
                values = (case,) if len(keys) == 1 else tuple(case)
                given = dict(zip(keys, values, strict=True))
                try:
                    test(**given, **_own(fixtures, number=number))
                except Exception as error:
                    error.add_note(f"case {number}: {_label(case, ids=ids, number=number)}")
                    failed.append(error)
                finally:
                    _clean(fixtures)
            if failed:
                raise failed[0] if len(failed) == 1 else ExceptionGroup("cases failed", failed)

        left = [p for name, p in signature.parameters.items() if name not in keys]
        tried.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return tried

    return decorate


def _own(fixtures: dict[str, Any], *, number: int) -> dict[str, Any]:
    if not isinstance(folder := fixtures.get("tmp_path"), Path):
        return fixtures
    own = folder / f"case{number}"
    own.mkdir()
    return {**fixtures, "tmp_path": own}


def _clean(fixtures: dict[str, Any]) -> None:
    for fixture in fixtures.values():
        match fixture:
            case pytest.MonkeyPatch():
                fixture.undo()
            case pytest.CaptureFixture():
                fixture.readouterr()
            case pytest.LogCaptureFixture():
                fixture.clear()


def _label(case: Any, *, ids: Any, number: int) -> str:
    if callable(ids):
        return str(ids(case))
    return str(list(ids)[number]) if ids else repr(case)[:200]
