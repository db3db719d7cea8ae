"""The live table of a sweep reads a trial's log where it has grown."""

import json
from pathlib import Path
from typing import Any

import pytest

from gfcr import sweep
from gfcr.commands.sweep_display import SweepDisplay
from gfcr.tracking.folder import RunFolder
from tests.launchers import values_of

UPDATE = {"rollouts/all": 8.0, "reward/all": 0.5, "length/all/mean": 7.0}


def test_a_log_is_read_again_only_once_it_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = sweep.from_values(values_of(tmp_path, arms={"a": {}}, seeds=[0]), where="t")
    trial, shown, reads = study.trials[0], list[str](), list[Path]()
    was = RunFolder.metrics

    def counted(folder: RunFolder) -> Any:
        reads.append(folder.path)
        return was(folder)

    monkeypatch.setattr(RunFolder, "metrics", counted)
    display = SweepDisplay(study, show=lambda table: shown.append(table.markdown()))
    display.begin(trial)
    trial.folder.mkdir(parents=True, exist_ok=True)
    for update in (1, 2):
        with (trial.folder / "metrics.jsonl").open("a") as log:
            log.write(json.dumps({"step": update, "time": 0.0, "metrics": UPDATE}) + "\n")
        for _ in range(3):
            display.watch(trial)
            assert f"{update}/{trial.updates}" in shown[-1]
    assert len(reads) == 2
