"""What a run's record says of its study: the seeds, arms and baseline asked for when it began."""

from pathlib import Path
from typing import Any

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.experiment.source import Pause
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.folder_store import read_folder

VALUES: dict[str, Any] = {
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 4},
    "tracking": {"name": "local"},
    "prompts": 4,
    "evaluation": {"prompts": 6},
}


def run(place: Path, *, until: str | None = None, **changes: Any) -> dict[str, Any]:
    config = configs.experiment({**VALUES, "folder": str(place), **changes}, where="t")
    return experiment.run(config, until=Pause.parse(until) if until else None)


def test_what_was_to_be_compared_stands_once_something_was_measured(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"roster": {"seeds": [0, 1], "arms": ["grpo"]}, "baseline": "grpo"}
    later: dict[str, Any] = {
        "roster": {"seeds": [0, 1, 2], "arms": ["grpo", "dapo"]},
        "baseline": "dapo",
        "minimum_effect": 0.3,
    }
    every = {"prompts": 6, "every": 1}
    assert run(tmp_path, until="updates=1", evaluation=every, **asked)["status"] == "paused"
    ended = run(tmp_path, evaluation=every, **later)
    assert ended["roster"] == asked["roster"]
    tags = read_folder(RunFolder(ended["folder"])).tags
    planned = {name: tags[f"gfcr.{name}"] for name in ("baseline", "metric", "minimum_effect")}
    assert planned == {"baseline": "grpo", "metric": "heldout/accuracy", "minimum_effect": ""}
    assert run(tmp_path, evaluation=every, **later)["roster"] == asked["roster"]


def test_a_run_by_itself_was_asked_for_by_itself(tmp_path: Path) -> None:
    assert run(tmp_path, seed=3)["roster"] == {"seeds": [3], "arms": ["grpo"]}
    named: dict[str, Any] = {"roster": {"seeds": [0, 1]}}
    assert run(tmp_path, seed=4, **named)["roster"]["seeds"] == [4]
    assert run(tmp_path, seed=1, **named)["roster"]["seeds"] == [0, 1]


def test_every_run_of_a_study_has_the_files_roster_whichever_arms_are_run() -> None:
    values = {**VALUES, "study": "s", "seeds": [0, 3], "arms": {"a": {}, "b": {"prompts": 2}}}
    study = sweep.from_values(values, where="t")
    for trial in (*study.trials, *study.only(["b"]).trials):
        assert trial.config.roster.seeds == (0, 3) and trial.config.roster.arms == ("a", "b")
