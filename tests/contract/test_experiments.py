"""Every experiment and study file in the repository resolves."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from gfcr import config, experiment, sweep
from gfcr.values import merging
from tests.cases import over
from tests.contract.sources import EXPERIMENTS, ROOT


@pytest.mark.slow
@over("path", EXPERIMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_an_experiment_resolves(path: Path) -> None:
    if {"arms", "factors"} & merging.read(path).keys():
        study = sweep.load(path, overrides=[])
        assert study.trials and len({t.folder for t in study.trials}) == len(study.trials)
    else:
        resolved = experiment.resolve(config.read_experiment(path))
        assert resolved.strategy.filters and resolved.run_id


@over("path", EXPERIMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_an_experiment_has_a_readme(path: Path) -> None:
    assert (path.parent / "README.md").is_file()


EARLIER = "093c1cf35666"
"""The last commit whose files were not read by OmegaConf."""


@pytest.mark.slow
def test_files_written_before_interpolation_are_read(tmp_path: Path) -> None:
    archive = ["git", "-C", str(ROOT), "archive", "-o", f"{tmp_path}/it.tar", EARLIER]
    if subprocess.run([*archive, "experiments"], capture_output=True).returncode:
        pytest.skip(f"no checkout that has {EARLIER}")
    with tarfile.open(tmp_path / "it.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    kept = [file for file in EXPERIMENTS if (tmp_path / file.relative_to(ROOT)).is_file()]
    assert len(kept) > 60
    for file in kept:
        before = tmp_path / file.relative_to(ROOT)
        read = sweep.load if {"arms", "factors"} & merging.read(before).keys() else _experiment
        read(before, overrides=[])


def _experiment(path: Path, *, overrides: list[str]) -> None:
    experiment.resolve(config.read_experiment(path, overrides=overrides))
