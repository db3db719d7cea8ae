"""One test over many cases tries them all and says which failed."""

import os
from pathlib import Path

import pytest

from tests.cases import over


def test_all_are_tried_and_each_that_failed_is_named() -> None:
    tried: list[int] = []

    @over("number", [1, 2, 3])
    def test(number: int) -> None:
        tried.append(number)
        assert number == 2

    with pytest.raises(ExceptionGroup) as caught:
        test()
    assert tried == [1, 2, 3]
    notes = [note for e in caught.value.exceptions for note in e.__notes__]
    assert notes == ["case 0: 1", "case 2: 3"]


@over("name", ["a", "b"], ids=str.upper)
@over(("first", "second"), [(1, 2), (3, 4)])
def test_products_have_folders_and_environments_of_their_own(
    name: str, first: int, second: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert second == first + 1 and not [*tmp_path.iterdir()]
    assert "GFCR_TEST_CASE" not in os.environ
    monkeypatch.setenv("GFCR_TEST_CASE", name)
    (tmp_path / "file").touch()


def test_no_cases_are_an_error() -> None:
    with pytest.raises(AssertionError, match="no cases"):
        over("number", [])
