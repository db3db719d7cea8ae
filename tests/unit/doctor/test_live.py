"""Findings while a run is under way."""

from pathlib import Path

from gfcr.doctor import Watcher
from gfcr.tracking.folder import RunFolder

CUT = {"rollouts/all": 8.0, "length/trained/truncated": 0.5}
WHOLE = {**CUT, "length/trained/truncated": 0.0}


def test_a_finding_is_told_once(tmp_path: Path) -> None:
    watcher = Watcher(RunFolder(tmp_path))
    told = [[f.rule for f in watcher.heed(i, metrics=CUT)] for i in range(1, 9)]
    assert told == [[]] * 4 + [["truncation"]] + [[]] * 3


def test_what_was_told_before_a_run_was_left_is_not_told_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in range(1, 6):
        folder.append(step, metrics=CUT)
    assert not Watcher(folder).heed(6, metrics=CUT)
    for step in range(6, 30):
        folder.append(step, metrics=WHOLE)
    assert not Watcher(folder).heed(30, metrics=WHOLE)
