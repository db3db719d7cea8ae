import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import CheckpointError
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder


def card(**kwargs):
    fields = {"run_id": "abc", "study": "s", "arm": "a", "seed": 0, "spec": {"lr": 0.1, "n": [1]}}
    return RunCard(**{**fields, **kwargs})


def test_a_card_comes_back_as_written(tmp_path):
    RunFolder(tmp_path / "run").create(card(tags={"gfcr.task": "t"}))
    assert RunFolder(tmp_path / "run").card() == card(tags={"gfcr.task": "t"})


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


@given(values=st.lists(st.floats(), max_size=5), cut=st.integers(0, 6))
def test_truncating_forgets_a_step_and_all_after_it(tmp_path_factory, values, cut):
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    for step, value in enumerate(values):
        folder.append(step, metrics={"x": value}, time=1.0 + step)
    folder.truncate(cut)
    lines = list(folder.metrics())
    assert [line.step for line in lines] == list(range(min(cut, len(values))))
    assert all(
        line.metrics["x"] == value or math.isnan(value)
        for line, value in zip(lines, values, strict=False)
    )


def test_a_line_cut_by_a_kill_is_not_read_and_goes_on_resuming(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append(1, metrics={"x": 1.0})
    folder.append(2, metrics={"x": 2.0})
    file = tmp_path / "metrics.jsonl"
    file.write_text(file.read_text()[:-9])
    assert [line.step for line in folder.metrics()] == [1]
    folder.truncate(2)
    folder.append(2, metrics={"x": 3.0})
    assert [line.metrics["x"] for line in folder.metrics()] == [1.0, 3.0]


def test_resuming_leaves_no_later_rollouts(tmp_path):
    folder = RunFolder(tmp_path)
    folder.rollouts.mkdir()
    for index in (0, 1, 2):  # what updates 1, 2 and 3 trained on
        (folder.rollouts / f"update-{index:06d}.parquet").touch()
    folder.truncate(2)
    assert [file.name for file in folder.rollouts.iterdir()] == ["update-000000.parquet"]


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
