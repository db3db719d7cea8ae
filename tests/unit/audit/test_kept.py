"""What an undecided cell has gathered is there for the next command, whole or not at all."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from gfcr.audit import kept
from gfcr.audit.kept import Gathered
from gfcr.certificate.cell import Cell, Verdict
from gfcr.engine.base import EngineStats
from tests.unit.audit.test_large_vocabularies import gathered, same

SIZE = 1_600
"""Bytes of a token's evidence, at most, as docs/audit.md says."""


def test_what_an_undecided_cell_gathered_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kept.path_of(tmp_path, label="ngram-t1", about=[0])
    assert kept.read(path) == Gathered() == kept.read(None)
    held = Gathered(tokens=26, rounds=2, wanted=900, stats=EngineStats(drafts=3), seconds=1.5)
    cell = Cell(drafter="ngram", setting="t1")
    replace(held, evidence=gathered(0)).leave(path, after=cell)
    found = kept.read(path)
    assert found.evidence is not None and same(found.evidence, gathered(0))
    assert replace(found, evidence=None) == replace(held, judged=1)
    assert path.stat().st_size < len(found.evidence) * SIZE + len(pickle.dumps(gathered(0).shifts))
    path.write_bytes(path.read_bytes()[:-9])
    assert kept.read(path) == Gathered()
    Gathered().leave(path, after=replace(cell, verdict=Verdict.BIASED))
    assert not path.exists()
    assert path != kept.path_of(tmp_path, label="ngram-t1", about=[1])
    # What an edited audit would read as objects of other classes is not read.
    monkeypatch.setattr(kept, "__file__", str(tmp_path / "edited" / "kept.py"))
    assert path != kept.path_of(tmp_path, label="ngram-t1", about=[0])
