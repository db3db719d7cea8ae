"""TensorBoard and Weights & Biases hold what a run's folder holds: read back, offline."""

import struct
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto.wandb_internal_pb2 import Record

from gfcr import config as configs
from gfcr import experiment, registry
from gfcr.leaderboard import rank
from gfcr.tracking import wandb
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.folder_store import find_folders, read_folders
from gfcr.tracking.tensorboard import Tensorboard
from gfcr.tracking.wandb import Wandb
from tests.cases import over
from tests.integration.mlflow_runs import make_card, metrics_of, write_run
from tests.launchers import values_of


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))


def tensorboard_points(folder: Path):
    """What TensorBoard itself reads."""
    held = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return [
        (tag, point.step, pytest.approx(point.value, rel=1e-6))
        for tag in sorted(held.Tags()["scalars"])
        for point in held.Scalars(tag)
    ]


def wandb_records(folder: Path):
    """Records of the one `.wandb` file, whose process writes on for a moment after the run."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        files = [*folder.glob("wandb/offline-run-*/run-*.wandb")]
        found = [*_records(files[0].read_bytes())] if files else []
        if any(record.HasField("exit") for record in found):
            assert len(files) == 1
            return found
        time.sleep(0.1)
    raise TimeoutError(folder)


def _records(content: bytes):
    """LevelDB's log format, after seven bytes of wandb's own."""
    at, parts = 7, b""
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        if at + 7 + length > len(content):
            return  # it is being written
        parts += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(parts)
            parts = b""


def wandb_points(folder: Path):
    found = []
    for record in wandb_records(folder):
        if record.HasField("history"):
            named = {i.key or "/".join(i.nested_key): i.value_json for i in record.history.item}
            step = int(named.pop("_step", record.history.step.num))
            found += [(k, step, float(v)) for k, v in named.items() if not k.startswith("_")]
    return sorted(found)


def folder_points(folder: Path):
    lines = RunFolder(folder).metrics()
    return sorted((name, line.step, v) for line in lines for name, v in line.metrics.items())


TRACKERS = {
    "tensorboard": (Tensorboard, tensorboard_points),
    "wandb": (lambda: Wandb(mode="offline"), wandb_points),
}


@pytest.mark.whole
@over("name", TRACKERS)
def test_a_tracker_holds_a_killed_and_resumed_runs_points_once(tmp_path, name):
    make, points = TRACKERS[name]
    card, folder = make_card(), RunFolder(tmp_path / "run")
    folder.create(card)
    killed, mark = make(), folder.mark()
    killed.start(card, folder=folder.path)
    for step in range(1, 6):
        folder.append(step, metrics=metrics_of(card, step))
        killed.log(step, metrics_of(card, step))
        if step == 3:
            mark = folder.mark()
    killed.finish(status="paused", result={})
    assert points(folder.path) == folder_points(folder.path)
    folder.back_to(mark)
    write_run(folder.path, card, tracker=make(), steps=range(4, 9))
    held = folder_points(folder.path)
    assert {step for _, step, _ in held} == {*range(1, 9)}
    assert points(folder.path) == held


def test_a_tensorboard_that_is_open_shows_no_point_twice(tmp_path):
    card, folder = make_card(), RunFolder(tmp_path / "run")
    write_run(folder.path, card, tracker=Tensorboard())
    seen = EventAccumulator(str(folder.path), size_guidance={"scalars": 0}).Reload()
    assert [p.step for p in seen.Scalars("heldout/accuracy")] == [1, 2, 3, 4, 5]
    time.sleep(1.1)  # files are in the order of their seconds
    write_run(folder.path, card, tracker=Tensorboard(), steps=range(6, 8))
    steps = [p.step for p in seen.Reload().Scalars("heldout/accuracy")]
    assert steps == [*range(1, 8)]


def test_wandb_knows_a_run_by_name_group_and_settings(tmp_path):
    write_run(tmp_path / "run", make_card(), tracker=Wandb(mode="offline", project="mine"))
    records = wandb_records(tmp_path / "run")
    (run,) = [r.run for r in records if r.HasField("run")][:1]
    assert (run.project, run.display_name) == ("mine", "grpo / seed 0")
    assert run.run_group == "it's a study / grpo"
    told = {i.key: i.value_json for i in run.config.update}
    assert told["trainer"] == '{"lr":0.001}'
    summed = {i.key: i.value_json for r in records for i in r.summary.update}
    assert summed["status"] == '"finished"'
    assert [r.exit.exit_code for r in records if r.HasField("exit")] == [0]


@over("name", TRACKERS)
def test_a_run_tracked_elsewhere_is_ranked_from_its_folder(tmp_path, name):
    tracking = {"name": name, **({"mode": "offline"} if name == "wandb" else {})}
    config = configs.experiment(
        {**values_of(tmp_path / "runs"), "seed": 0, "tracking": tracking}, where="t"
    )
    experiment.run(config)
    folders = find_folders(tmp_path / "runs")
    assert TRACKERS[name][1](folders[0]) == folder_points(folders[0])
    (row,) = rank(read_folders(folders)).rows
    assert row.arm == "grpo"


def test_a_store_that_takes_nothing_costs_the_run_nothing(tmp_path, capfd, monkeypatch):
    card, folder = make_card(), tmp_path / "run"
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(wandb, "_PATIENCE_S", 1.0)
    write_run(folder, card, tracker=registry.build("tracking", {"name": "wandb"}))
    assert capfd.readouterr().err.count("gfcr: wandb is not taking records") == 1
    assert RunFolder(folder).status == "finished"
