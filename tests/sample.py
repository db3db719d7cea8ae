"""Which of many cases every run of the tests tries."""

from collections.abc import Iterable
from typing import Any

import pytest


def sample(cases: Iterable[str], *, always: Iterable[str]) -> list[Any]:
    """The names of cases for `parametrize`: those not `always` tried are of `make test-all`."""
    names, chosen = list(cases), set(always)
    assert chosen <= set(names), f"no such case: {chosen - set(names)}"
    return [n if n in chosen else pytest.param(n, marks=pytest.mark.whole, id=n) for n in names]
