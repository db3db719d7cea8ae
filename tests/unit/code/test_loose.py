"""Modules of files by their paths."""

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
