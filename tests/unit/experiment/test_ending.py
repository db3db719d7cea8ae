"""A disk that is full is named with what to do; an engine that fails is told by the record."""

import errno
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from gfcr import config as configs
from gfcr.errors import GfcrError, PartError
from gfcr.experiment.ending import break_off, disk_problem
from gfcr.experiment.resolved import resolve
from gfcr.experiment.running import run
from gfcr.experiment.source import Pause
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.folder_store import read_folder
from tests import commands
from tests.launchers import VALUES


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("not allowed to mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def gfcr(file: Path) -> tuple[int, dict[str, Any], str]:
    done = commands.gfcr("run", file, "--json")
    return done.returncode, json.loads(done.stdout), done.stderr


def experiment(tmp_path: Path, folder: Path) -> Path:
    file = tmp_path / "experiment.yaml"
    trainer = {"name": "dry", "max_steps": 40, "save_every": 2}
    file.write_text(yaml.safe_dump({**VALUES, "folder": str(folder), "trainer": trainer}))
    return file


def test_a_full_disk_is_named_and_with_room_the_run_goes_on(
    tmp_path: Path, small_disk: Path
) -> None:
    file = experiment(tmp_path, small_disk)
    (small_disk / "ballast").write_bytes(bytes(200_000))
    code, answer, words = gfcr(file)
    assert code == 2 and "No space left on device" in answer["error"]
    assert str(small_disk) in answer["error"] and "free some space" in words
    (card,) = small_disk.rglob("run.json")
    assert RunFolder(card.parent).status == "failed"
    (small_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    code, answer, _ = gfcr(file)
    assert code == 0 and answer["status"] == "finished" and answer["resumed_from"] > 0


def test_a_disk_that_fills_up_under_pytorch_is_named_too(small_disk: Path) -> None:
    with pytest.raises(RuntimeError) as error:
        torch.save(torch.zeros(2**18), small_disk / "optimizer.pt")
    told = disk_problem(error.value, folder=small_disk)
    assert f"{small_disk} cannot be written (No space left on device): free some" in str(told)
    assert disk_problem(RuntimeError("failed finding central directory"), folder=small_disk) is None


def test_a_disk_closed_to_writing_is_named(tmp_path: Path, small_disk: Path) -> None:
    file = experiment(tmp_path, small_disk / "runs")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    code, answer, words = gfcr(file)
    assert code == 2 and str(small_disk) in answer["error"]
    assert "Read-only file system" in words and "may write to" in words


def test_a_file_that_may_not_grow_is_named(tmp_path: Path) -> None:
    file = experiment(tmp_path, tmp_path / "runs")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # more than an update's rollouts
    try:
        code, answer, _ = gfcr(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 2 and "File too large" in answer["error"]
    (card,) = tmp_path.rglob("run.json")
    assert RunFolder(card.parent).status == "failed"
    code, answer, _ = gfcr(file)
    assert code == 0 and answer["status"] == "finished" and answer["resumed_from"] > 0


def test_a_full_disk_costs_no_batch_that_was_made_ahead(tmp_path: Path) -> None:
    asked = {**VALUES, "folder": str(tmp_path), "schedule": "lag"}
    config = configs.experiment(asked, where="t")
    paused = run(config, until=Pause(of="updates", at=2))
    records = RunFolder(Path(paused["folder"]))
    assert max(records.updates) >= paused["updates"], "one waits for the trainer"
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path))
    break_off(resolve(config), records=records, source=None, error=full)
    resumed = run(config)
    assert resumed["resumed_from"] == paused["updates"]
    assert any("of a policy up to 1 update ago" in said for said in resumed["warnings"])


def test_a_run_whose_engine_does_not_start_has_failed(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    strategy = {"name": "grpo", "drafter": {"name": "ngram"}}  # vLLM has it built in
    file.write_text(yaml.safe_dump({**VALUES, "folder": str(tmp_path), "strategy": strategy}))
    code, answer, _ = gfcr(file)
    (card,) = tmp_path.rglob("run.json")
    held = read_folder(RunFolder(card.parent))
    assert code == 2 and held.status == "failed" and held.result is not None
    assert held.result["error"] == answer["error"]
    assert "no drafter built in" in answer["error"]
    quoting = GfcrError("none of 8 rollouts could be scored: PermissionError: Permission denied")
    assert disk_problem(quoting, folder=tmp_path) is None, "a verifier's file is none of the run's"
    part = PartError("strategy.drafter failed")
    part.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "free some space" in str(disk_problem(part, folder=tmp_path))
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "data.parquet")
    assert "data.parquet cannot be read or written" in str(disk_problem(denied, folder=tmp_path))
