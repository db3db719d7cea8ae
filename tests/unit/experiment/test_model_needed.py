"""What a run asks of engines that need no model, or count no passes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gfcr import config as configs
from gfcr import experiment
from gfcr.engine.fake import FakeEngine
from gfcr.errors import ConfigError


def run(place: Path, *, trainer: str) -> dict[str, Any]:
    values = {
        "model": "demo-drft",
        "engine": {"name": "fake", "mean_length": 6},
        "trainer": {"name": trainer, "max_steps": 1},
        "tracking": {"name": "local"},
        "prompts": 4,
        "evaluation": {"prompts": 6},
        "folder": str(place),
    }
    return dict(experiment.run(configs.experiment(values, where="t")))


def test_a_trainer_that_learns_needs_the_model_that_its_engine_does_not(tmp_path: Path) -> None:
    assert run(tmp_path, trainer="dry")["status"] == "finished"
    with pytest.raises(ConfigError, match="demo-draft"):
        run(tmp_path, trainer="trl")


def test_passes_that_an_engine_does_not_count_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(tmp_path / "counted", trainer="dry")["forward_passes"] > 0
    plain = FakeEngine.stats
    monkeypatch.setattr(FakeEngine, "stats", lambda own: replace(plain(own), forward_passes=0))
    assert run(tmp_path / "uncounted", trainer="dry")["forward_passes"] is None
