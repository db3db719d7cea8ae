"""What an annotation lets through, whatever its range: as pydantic is told."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.values.ranges import Count, Options, Share, Word, conform
from tests.cases import over

RIGHT: list[tuple[Any, Any, Any]] = [
    (int, 2**63 - 1, 2**63 - 1),
    (Count, np.int64(3), 3),
    (float, 2, 2.0),
    (Share, np.float32(0.5), 0.5),
    (Share | None, None, None),
    (Word, 2026, "2026"),
    (tuple[int, ...], [1, 2], (1, 2)),
    (list[int], (1, 2), [1, 2]),
    (Path, "a/b", Path("a/b")),
    (dict[str, Any], {"a": 1}, {"a": 1}),
    (Options, given := {"a": [1, {"b": None, "c": True}], "d": "x", "e": 0.5}, given),
]
WRONG: list[tuple[Any, Any]] = [
    *((int, value) for value in (True, 1.0, "1", 2**63, -(2**63), None)),
    *((float, value) for value in (True, float("nan"), float("inf"), 10**400, 1j, "1")),
    *((str, value) for value in (1.5, True, "a\0", "\ud800")),
    (bool, 1),
    *((Literal["a"], value) for value in ("b", 10**5000)),
    *((Literal[1, 0.5], value) for value in (3, "1", None)),
    *((tuple[int, ...], value) for value in ({1, 2}, "12", [1.5], iter([1]))),
    (tuple[int, int], [1]),
    (dict[str, int], {"a": "b"}),
    (Path, 3),
    *((Options, {"a": [{"b": value}]}) for value in (float("nan"), -float("inf"), 2**63, "a\0")),
    *((Options, value) for value in (3, [1], {"a\0": 1})),
]


@over(("hint", "given", "read"), RIGHT)
def test_what_is_right_has_the_type_that_is_wanted(hint: Any, given: Any, read: Any) -> None:
    found = conform(given, hint, key="k")
    assert found == read and type(found) is type(read)


@over(("hint", "given"), WRONG)
def test_what_is_wrong_names_the_key_and_the_value(hint: Any, given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^k=.* is not allowed: give "):
        conform(given, hint, key="k")
