"""A model is resolved for whoever loads it: the engine, or the trainer alone."""

from pathlib import Path

import pytest

from gfcr import config as configs
from gfcr import experiment
from gfcr.errors import ConfigError


def run(place: Path, *, trainer: str) -> str:
    values = {
        "model": "demo-drft",
        "engine": {"name": "fake", "mean_length": 6},
        "trainer": {"name": trainer, "max_steps": 1},
        "tracking": {"name": "local"},
        "prompts": 4,
        "evaluation": {"prompts": 6},
        "folder": str(place),
    }
    return str(experiment.run(configs.experiment(values, where="t"))["status"])


def test_a_trainer_that_learns_needs_the_model_that_its_engine_does_not(tmp_path: Path) -> None:
    assert run(tmp_path, trainer="dry") == "finished"
    with pytest.raises(ConfigError, match="demo-draft"):
        run(tmp_path, trainer="trl")
