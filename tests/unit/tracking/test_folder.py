import json
import math
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import CheckpointError
from gfcr.testing import factories as make
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import Mark, RunFolder
from gfcr.tracking.parquet import every_file
from gfcr.types import Cost, RolloutBatch
from tests.cases import over

CORRECTED = {"g/0": (np.float32([0.5]), np.array([True]))}


def batch(step):
    held = {"samples": (), "groups": (make.group([1.0, 0.0]),), "aborted": (), "metrics": {}}
    return RolloutBatch(step=step, version=step, cost=Cost(), **held)


def card(**kwargs):
    fields = {"run_id": "abc", "study": "s", "arm": "a", "seed": 0, "spec": {"lr": 0.1, "n": [1]}}
    return RunCard(**{**fields, **kwargs})


def test_a_card_comes_back_as_written(tmp_path):
    RunFolder(tmp_path / "run").create(card(tags={"gfcr.task": "t"}))
    assert RunFolder(tmp_path / "run").card() == card(tags={"gfcr.task": "t"})


def test_a_card_keeps_the_order_of_filters(tmp_path):
    filters = {"zero_variance": {}, "advantage": {}}
    RunFolder(tmp_path / "run").create(card(spec={"strategy": {"filters": filters}}))
    assert [*RunFolder(tmp_path / "run").card().spec["strategy"]["filters"]] == [*filters]


def test_a_folder_is_reopened_by_its_own_run_only(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create(card())
    folder.create(card())
    with pytest.raises(CheckpointError, match=r"holds run abc, not xyz.*Give another"):
        folder.create(card(run_id="xyz"))


def test_resuming_is_the_same_attempt_and_starting_over_is_another(tmp_path):
    attempts = []
    for name in ("one", "one", "two"):
        folder = RunFolder(tmp_path / name)
        folder.create(card())
        attempts.append(folder.attempt)
    assert attempts[0] == attempts[1] != attempts[2]


def test_a_folder_that_is_no_run_says_so(tmp_path):
    with pytest.raises(CheckpointError, match=r"run\.json is missing"):
        RunFolder(tmp_path).card()


@given(values=st.lists(st.floats(), max_size=5), after=st.integers(0, 5), cut=st.integers(0, 40))
def test_going_back_forgets_all_that_came_after(tmp_path_factory, values, after, cut):
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    mark = folder.mark()
    for step, value in enumerate(values):
        folder.append(step, metrics={"x": value}, time=1.0 + step)
        if step + 1 == after:
            mark = folder.mark()
    file = folder.path / "metrics.jsonl"
    kept = after if after <= len(values) else 0
    if file.exists():  # and a kill cuts the last line
        os.truncate(file, max(mark.metrics, file.stat().st_size - cut))
    folder.back_to(mark)
    folder.append(9, metrics={"x": 3.0})
    lines = list(folder.metrics())
    assert [line.step for line in lines] == [*range(kept), 9]
    assert all(
        line.metrics["x"] == value or math.isnan(value)
        for line, value in zip(lines[:kept], values, strict=False)
    )


def test_going_back_leaves_no_later_rollouts_and_no_halves(tmp_path):
    folder = RunFolder(tmp_path)
    marks = []
    for step in range(3):
        folder.add_rollouts(batch(step), spell=str)
        marks.append(folder.mark())
        folder.add_corrections(made=CORRECTED, update=step)
    (folder.rollouts / ".update-000007.parquet.123").touch()
    (tmp_path / ".status.json.77").touch()
    (tmp_path / ".mine").touch()
    folder.back_to(marks[2])
    assert sorted(f.name for f in (folder.rollouts / "corrections").iterdir()) == [
        "update-000000.parquet",
        "update-000001.parquet",
    ]
    RunFolder(tmp_path).back_to(marks[0])
    assert every_file(folder.rollouts) == [folder.rollouts / "update-000000.parquet"]
    assert (tmp_path / ".mine").exists() and not (tmp_path / ".status.json.77").exists()
    folder.back_to(Mark())
    assert not every_file(folder.rollouts)


@over(
    "name",
    [
        "metrics.jsonl",
        "rollouts/update-000001.parquet",
        "rollouts/corrections/update-000001.parquet",
    ],
)
def test_records_that_changed_since_the_checkpoint_are_named(tmp_path, name):
    folder = RunFolder(tmp_path)
    for step in range(2):
        folder.append(step, metrics={"x": 1.0})
        folder.add_rollouts(batch(step), spell=str)
        folder.add_corrections(made=CORRECTED, update=step)
    mark, file = folder.mark(), tmp_path / name
    held = file.read_bytes()
    for damage in (held[:-1], b"", held[:9] + b"7" + held[10:]):
        file.write_bytes(damage)
        with pytest.raises(CheckpointError, match=f"{name} is damaged"):
            folder.back_to(mark)
    file.unlink()
    with pytest.raises(CheckpointError, match=f"{name} is damaged or missing"):
        folder.back_to(mark)
    file.write_bytes(held)
    folder.back_to(mark)


def test_what_a_checkpoint_vouches_for_is_on_the_disk(tmp_path, monkeypatch):
    folder, flushed, fsync = RunFolder(tmp_path), [], os.fsync

    def heard(handle):
        flushed.append(os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), tmp_path))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", heard)
    for step in range(3):
        flushed.clear()
        folder.append(step, metrics={"x": 1.0})
        folder.add_rollouts(batch(step), spell=str)
        folder.add_corrections(made=CORRECTED, update=step)
        assert not flushed, "an update waits for no disk"
        folder.mark()
        folders = {".", "rollouts", "rollouts/corrections"}
        made = {f"{name}/update-{step:06d}.parquet" for name in folders - {"."}}
        assert sorted(flushed) == sorted({"metrics.jsonl", *folders, *made})


def test_rollouts_that_somebody_deleted_keep_no_checkpoint_from_being_made(tmp_path):
    folder = RunFolder(tmp_path)
    folder.add_rollouts(batch(0), spell=str)
    folder.updates[0].unlink()
    folder.mark()


READ = {
    "run.json": RunFolder.card,
    "status.json": lambda folder: folder.status,
    "result.json": RunFolder.result,
    "metrics.jsonl": lambda folder: list(folder.metrics()),
}


@over("held", [b"", b"{", b"\xff\xfe\n", b"null\n", b"[1]\n", b'{"a": 1}\n'])
@over("name", READ)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, held):
    (tmp_path / name).write_bytes(held)
    if (name, held) == ("result.json", b'{"a": 1}\n') or (
        name == "metrics.jsonl" and len(held) < 2
    ):
        return  # a result is any mapping; a line without its end was cut by a kill
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        READ[name](RunFolder(tmp_path))


def test_result_and_status_appear_whole(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert folder.result() is None
    assert folder.status is None
    folder.set_status("running")
    folder.write_result({"heldout": {"after": {"accuracy": 0.5}}})
    folder.set_status("finished")
    assert folder.status == "finished"
    assert folder.result() == {"heldout": {"after": {"accuracy": 0.5}}}
    assert {file.name for file in folder.path.iterdir()} == {"result.json", "status.json"}


def test_every_line_is_json_on_its_own(tmp_path):
    RunFolder(tmp_path).append(3, metrics={"a/b:c": 0.25}, time=7.5)
    line = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert line == {"step": 3, "metrics": {"a/b:c": 0.25}, "time": 7.5}
