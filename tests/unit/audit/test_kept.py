"""What an undecided cell has gathered is there for the next command, whole or not at all."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from gfcr.audit import kept
from gfcr.audit.evidence import arrays_of
from gfcr.audit.greedy import Tally
from gfcr.audit.kept import Kept
from gfcr.audit.rounds import Ended
from gfcr.certificate.cell import Cell, Verdict
from tests.unit.audit.test_large_vocabularies import gathered

SIZE = 1_600
"""Bytes of a token's evidence, at most, as docs/audit.md says."""


def test_what_an_undecided_cell_gathered_is_read_again(tmp_path: Path) -> None:
    path = kept.path_of(tmp_path, label="ngram-t1", about=[0])
    assert kept.read(path) == Kept() == kept.read(None)
    ended = Ended(tokens=26, rounds=2, wanted=900, counters={"drafts": 3}, seconds=1.5)
    tally = Tally(tokens=26, positions=Counter([0, 1, 1]), logprobs={"plain": {"tokens": 26.0}})
    cell = Cell(drafter="ngram", setting="t1")
    Kept(ended=ended, evidence=gathered(0), tally=tally).leave(path, after=cell)
    found = kept.read(path)
    assert (found.ended, found.tally) == (ended, tally) and found.ended.judged == 1
    assert found.evidence is not None and len(found.evidence) == 26
    each_token = [a for n, a in arrays_of(found.evidence).items() if n.endswith(("N", "R", "K"))]
    assert sum(a.nbytes for a in each_token) < 26 * SIZE
    path.write_bytes(b"damaged")
    assert kept.read(path) == Kept()
    Kept().leave(path, after=replace(cell, verdict=Verdict.BIASED))
    assert not path.exists()
    assert path != kept.path_of(tmp_path, label="ngram-t1", about=[1])
