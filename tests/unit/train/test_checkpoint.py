import shutil
from pathlib import Path

import numpy as np
import pytest

from gfcr.errors import CheckpointError
from gfcr.train import checkpoint
from tests.cases import over

FILES = ("gfcr_state.json", "gfcr_state.bin")


def made(folder, *, step, state=None, keep=9):
    path = checkpoint.path_of(folder, step=step)
    checkpoint.commit(path, state=state or {"step": step}, keep=keep)
    return path


def test_state_comes_back(tmp_path):
    path = made(tmp_path, step=3, state={"a": [1, 2], "b": {"c": None}})
    assert checkpoint.newest(tmp_path) == path
    assert checkpoint.step_of(path) == 3
    assert checkpoint.load(path) == {"a": [1, 2], "b": {"c": None}}
    assert {p.name for p in path.iterdir()} == {checkpoint.MARKER, *FILES}


def test_newest_is_by_number_not_by_name(tmp_path):
    for step in (9, 100, 20):
        made(tmp_path, step=step)
    assert checkpoint.newest(tmp_path) == tmp_path / "checkpoint-100"
    assert list(map(checkpoint.step_of, checkpoint.complete(tmp_path))) == [9, 20, 100]


def test_nothing_to_resume_from(tmp_path):
    assert checkpoint.newest(tmp_path) is None
    assert checkpoint.newest(tmp_path / "never-made") is None


@over("left", [(), ("model.safetensors",), (".gfcr_checkpoint.json.1",)])
def test_a_checkpoint_without_marker_is_set_aside(tmp_path, left):
    made(tmp_path, step=1)
    for _ in range(2):  # a second time on top of the first
        cut = tmp_path / "checkpoint-2"
        cut.mkdir()
        for name in left:
            (cut / name).write_text("half")
        assert checkpoint.newest(tmp_path) == tmp_path / "checkpoint-1"
        assert not cut.exists()
        assert (tmp_path / "checkpoint-2.incomplete").is_dir()


def test_commit_drops_the_oldest(tmp_path):
    for step in range(1, 6):
        made(tmp_path, step=step, keep=2)
    assert list(map(checkpoint.step_of, checkpoint.complete(tmp_path))) == [4, 5]


def test_state_that_is_no_data_commits_nothing(tmp_path):
    made(tmp_path, step=1)
    with pytest.raises(CheckpointError, match=r"state\['f'\] is a builtins.function"):
        made(tmp_path, step=2, state={"f": lambda: 0})
    assert checkpoint.newest(tmp_path) == tmp_path / "checkpoint-1"


class Source:
    """Takes what a checkpoint holds."""

    def load_state_dict(self, state):
        self.state = state


def whole(folder):
    for step in (1, 2):
        path = checkpoint.path_of(folder, step=step)
        (path / "deep").mkdir(parents=True)
        (path / "optimizer.pt").write_bytes(bytes(range(256)))
        (path / "deep" / "model.safetensors").write_bytes(b"weights")
        made(folder, step=step, state={"step": step, "x": np.arange(3)})
    return path


NAMES = (*FILES, checkpoint.MARKER, "optimizer.pt", "deep/model.safetensors")


@over("name", NAMES)
def test_any_changed_byte_is_found_and_the_one_before_is_resumed_from(tmp_path, name, capsys):
    path = whole(tmp_path / "origin")
    held = (path / name).read_bytes()
    for at in {0, len(held) // 2, len(held) - 1, *range(0, len(held), 97)}:
        folder = tmp_path / f"at-{at}"
        shutil.copytree(tmp_path / "origin", folder)
        changed = bytearray(held)
        changed[at] ^= 1
        (folder / "checkpoint-2" / name).write_bytes(changed)
        with pytest.raises(CheckpointError, match=f"{name} is damaged.*before it is .*-1"):
            checkpoint.load(folder / "checkpoint-2")
        source = Source()
        assert checkpoint.resume(folder, source=source, keep=9) == folder / "checkpoint-1"
        assert source.state["step"] == 1 and (folder / "checkpoint-2.damaged").is_dir()
        words = capsys.readouterr().err
        assert name in words and "goes on from checkpoint-1" in words


@over("name", NAMES)
def test_a_missing_file_is_found(tmp_path, name):
    path = whole(tmp_path)
    (path / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} is (missing|damaged or missing)"):
        checkpoint.load(path)


def test_without_a_whole_one_nothing_starts_over(tmp_path):
    whole(tmp_path)
    for step in (1, 2):
        (tmp_path / f"checkpoint-{step}" / "optimizer.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"checkpoint-2/optimizer.pt is damaged.*--fresh"):
        checkpoint.resume(tmp_path, source=Source(), keep=9)
    assert [p.name for p in checkpoint.complete(tmp_path)] == ["checkpoint-1", "checkpoint-2"]


def test_what_a_kill_left_undropped_is_dropped_when_resumed(tmp_path):
    for step in (1, 2, 3):
        made(tmp_path, step=step)
    assert checkpoint.resume(tmp_path, source=Source(), keep=2) == tmp_path / "checkpoint-3"
    assert list(map(checkpoint.step_of, checkpoint.complete(tmp_path))) == [2, 3]


def test_optimizers_of_a_finished_run_go_and_its_checkpoints_stay_whole(tmp_path: Path) -> None:
    for step in (1, 2):
        made = tmp_path / f"checkpoint-{step}"
        (made / "optimizer_0").mkdir(parents=True)
        for name in ("optimizer.pt", "optimizer_0/part", "model.safetensors"):
            (made / name).write_bytes(bytes(range(256)))
        checkpoint.commit(made, state={"step": step}, keep=2)
    (tmp_path / "checkpoint-1" / checkpoint.MARKER).write_text("damaged")
    checkpoint.drop_optimizers(tmp_path)
    held = {p.name for p in (tmp_path / "checkpoint-2").rglob("*") if p.is_file()}
    assert "model.safetensors" in held and not held & {"optimizer.pt", "part"}
    assert checkpoint.load(tmp_path / "checkpoint-2") == {"step": 2}
    assert (tmp_path / "checkpoint-1" / "optimizer.pt").exists()
