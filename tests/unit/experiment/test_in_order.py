"""A task whose mix moves: its prompts are drawn as they stand, also after a pause."""

from pathlib import Path
from typing import Any

import pytest

from gfcr import config as configs
from gfcr import experiment, registry
from gfcr.experiment.source import Pause
from gfcr.testing import factories as make
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.rollouts import read_rollouts

TASK = {"name": "experiments/regimes/moving.py:MovingChainSum", "num_train": 12, "num_heldout": 8}
VALUES: dict[str, Any] = {
    "model": "none",
    "task": TASK,
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 4},
    "tracking": {"name": "local"},
    "prompts": 4,
    "evaluation": {"prompts": 6, "every": 2},
    "seed": 3,
}


def asked(folder: Path, until: str | None = None) -> list[str]:
    config = configs.experiment({**VALUES, "folder": str(folder)}, where="t")
    ran = experiment.run(config, until=Pause.parse(until) if until else None)
    groups = read_rollouts(RunFolder(ran["folder"]).rollouts)
    return [group.prompt.text for group in groups]


@pytest.mark.slow
def test_prompts_are_drawn_as_the_task_gives_them(tmp_path: Path) -> None:
    given = [p.text for p in registry.build("task", TASK).problems(make.CODEC).train]
    assert asked(tmp_path / "a") == [*given, *given[:4]]
    paused = [asked(tmp_path / "b", until) for until in ("updates=2", None)]
    assert paused[-1] == [*given, *given[:4]]


def test_the_mix_moves_from_short_to_long_and_held_out_is_half_of_each() -> None:
    task = registry.build("task", {**TASK, "num_train": 120, "num_heldout": 80})
    problems = task.problems(make.CODEC)
    long = [len(p.text) > 9 for p in problems.train]
    thirds = [sum(long[at : at + 40]) for at in (0, 40, 80)]
    assert thirds[0] < 13 < thirds[1] < 28 < thirds[2]
    assert 25 < sum(len(p.text) > 9 for p in problems.heldout) < 55
