import pytest

from gfcr.errors import CheckpointError
from gfcr.train import checkpoint


def made(folder, *, step, state=None, keep=9):
    path = checkpoint.path_of(folder, step=step)
    checkpoint.commit(path, state=state or {"step": step}, keep=keep)
    return path


def test_state_comes_back(tmp_path):
    path = made(tmp_path, step=3, state={"a": [1, 2], "b": {"c": None}})
    assert checkpoint.newest(tmp_path) == path
    assert checkpoint.step_of(path) == 3
    assert checkpoint.load(path) == {"a": [1, 2], "b": {"c": None}}
    assert [p.name for p in path.iterdir()] == [checkpoint.MARKER]


def test_newest_is_by_number_not_by_name(tmp_path):
    for step in (9, 100, 20):
        made(tmp_path, step=step)
    assert checkpoint.newest(tmp_path) == tmp_path / "checkpoint-100"
    assert list(map(checkpoint.step_of, checkpoint.complete(tmp_path))) == [9, 20, 100]


def test_nothing_to_resume_from(tmp_path):
    assert checkpoint.newest(tmp_path) is None
    assert checkpoint.newest(tmp_path / "never-made") is None


@pytest.mark.parametrize("left", [(), ("model.safetensors",), ("gfcr_state.pkl.tmp",)])
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


def test_state_that_cannot_be_pickled_commits_nothing(tmp_path):
    made(tmp_path, step=1)
    with pytest.raises(Exception, match="pickle"):
        made(tmp_path, step=2, state={"f": lambda: 0})
    assert checkpoint.newest(tmp_path) == tmp_path / "checkpoint-1"


def test_unreadable_state_names_the_file(tmp_path):
    path = made(tmp_path, step=1)
    (path / checkpoint.MARKER).write_bytes(b"cgfcr.errors\nGone\n.")
    with pytest.raises(CheckpointError, match=r"checkpoint-1/gfcr_state.pkl cannot be read"):
        checkpoint.load(path)
