"""Every experiment and study file in the repository resolves."""

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
