"""docs/environments.md: its files are run as they are shown, on the fake engine."""

import json
import shutil
from pathlib import Path

import pytest

from gfcr import registry
from gfcr.generate.environments.base import Environment
from gfcr.testing import factories as make
from tests.commands import gfcr
from tests.pages import ROOT, blocks

PAGE = ROOT / "docs" / "environments.md"
CHEAP = [
    *("tracking=local", "model=none", "engine=fake", "engine.mean_length=6"),
    *("engine.alphabet=0123456789+-=,?#", "trainer=dry", "trainer.max_steps=2"),
    *("evaluation.prompts=4", "prompts=2", "strategy.group_size=4"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for block in blocks(PAGE):
        if block.title:
            (tmp_path / block.title).write_text(block.text)
    place = "experiments/quickstart"
    shutil.copytree(ROOT / place, tmp_path / place)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_experiment_runs_and_what_it_scores_are_episodes(folder: Path) -> None:
    done = gfcr("run", "steps.yaml", *CHEAP, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["updates"] == 2 and result["tokens"]["remainder"] == 0
    assert result["unscorable"] == [0] * len(result["curve"]), result


def test_the_environment_of_one_s_own_is_played(folder: Path) -> None:
    made: Environment = registry.build("environment", "countdown.py:Countdown")
    world = made.make()
    seen = [world.begin(make.prompt(), seed=1), *(world.act("x") for _ in range(4))]
    assert [s.text for s in seen] == ["4", "3", "2", "1", "0"] and seen[-1].done
    verdict = world.verdict("")
    assert verdict and verdict.reward == 1.0
