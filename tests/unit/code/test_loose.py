"""Modules of files by their paths."""

import os
import sys
from pathlib import Path

import pytest

from gfcr.code import loose


def test_what_lies_beside_a_file_can_be_imported_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "neighbour_of_loose.py").write_text("NUMBER = 7\n")
    (tmp_path / "rewards.py").write_text(
        "import neighbour_of_loose\n\ndef late():\n    from neighbour_of_loose import NUMBER\n"
        "    return NUMBER + neighbour_of_loose.NUMBER\n"
    )
    assert loose.load(tmp_path / "rewards.py").late() == 14


def test_an_edit_in_the_same_second_of_as_many_characters_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "mine.py"
    for text, value in (("lr = 1\n", 1), ("lr = 2\n", 2)):
        file.write_text(text)
        os.utime(file, (10**9, 10**9))  # as coarse as the cache of compiled files looks at it
        loose.refresh()
        assert vars(loose.load(file))["lr"] == value
