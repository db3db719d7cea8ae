"""A result that differs from the one that its run ended with is named."""

import json
from collections.abc import Callable
from math import inf, nan
from pathlib import Path

import pytest

from gfcr.errors import CheckpointError
from gfcr.tracking import ended, records
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.folder_store import read_folder
from tests.cases import over

RESULT = {"heldout": {"after": {"accuracy": 0.1}}, "seeds": (0, 1), "worst": nan, "most": inf}


def finished(place: Path, *, seed: int = 0) -> RunFolder:
    folder = RunFolder(place)
    folder.create(RunCard(run_id="r", study="s", arm="a", seed=seed, spec={"seed": seed}))
    ended.end(folder, status="finished", result=RESULT)
    return folder


def test_a_result_as_its_run_wrote_it_is_not_contradicted(tmp_path: Path) -> None:
    folder = finished(tmp_path)
    record = read_folder(folder)
    assert record.damage == "" and record.tags[records.TAG] == folder.result_digest
    ended.check(folder)
    ended.check(RunFolder(tmp_path / "not there"))
    # A status that is damaged when the run ends is written anew, and its digest is the result's.
    (tmp_path / "status.json").write_text("{")
    ended.end(folder, status="finished", result=RESULT)
    assert read_folder(folder).damage == ""
    (tmp_path / "metrics.jsonl").write_text("{\n")
    assert "metrics.jsonl is damaged" in read_folder(folder, series=["reward/all"]).damage


def test_a_run_that_goes_on_has_nothing_to_contradict(tmp_path: Path) -> None:
    folder = finished(tmp_path)
    folder.set_status("running")
    folder.write_result({"updates": 3})
    ended.check(folder)
    assert read_folder(folder).damage == "" and folder.result_digest is None


def edited(folder: RunFolder) -> None:
    folder.write_result({**RESULT, "updates": 3})


def copied(folder: RunFolder) -> None:
    other = finished(folder.path / "other", seed=1)
    (folder.path / "status.json").write_bytes((other.path / "status.json").read_bytes())


def relabelled(folder: RunFolder) -> None:
    file = folder.path / "status.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "status": "paused"}))


def removed(folder: RunFolder) -> None:
    (folder.path / "result.json").unlink()


CHANGED = "result.json was changed after the run ended"
MISTAKES: dict[str, tuple[Callable[[RunFolder], None], str]] = {
    "edited": (edited, CHANGED),
    "another seed's": (copied, CHANGED),
    "another status": (relabelled, CHANGED),
    "removed": (removed, "result.json is missing"),
}


@over("name", MISTAKES)
def test_a_result_that_was_changed_or_lost_is_named(tmp_path: Path, name: str) -> None:
    mistake, told = MISTAKES[name]
    folder = finished(tmp_path)
    mistake(folder)
    assert read_folder(folder).damage == told
    with pytest.raises(CheckpointError, match=f"{told}. Undo the edit"):
        ended.check(folder)
