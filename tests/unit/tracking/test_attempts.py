"""A run that is started over carries along what its earlier attempts had shown."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.experiment.source import Pause
from gfcr.tracking.attempts import code_of
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.folder_store import read_folder
from gfcr.tracking.records import RunRecord
from tests.cases import over

VALUES: dict[str, Any] = {
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 4},
    "tracking": {"name": "local"},
    "prompts": 4,
    "evaluation": {"prompts": 6},
}


def run(
    place: Path, *, fresh: bool = False, until: str | None = None, **changes: Any
) -> dict[str, Any]:
    config = configs.experiment({**VALUES, "folder": str(place), **changes}, where="t")
    return experiment.run(config, fresh=fresh, until=Pause.parse(until) if until else None)


def record(result: dict[str, Any]) -> RunRecord:
    found = read_folder(RunFolder(result["folder"]))
    assert not found.damage
    return found


def test_a_first_attempt_has_none_before_it(tmp_path: Path) -> None:
    assert record(run(tmp_path)).earlier == ()


@pytest.mark.slow
def test_each_attempt_is_in_the_sealed_result_of_those_after_it(tmp_path: Path) -> None:
    made = [run(tmp_path, fresh=n > 0) for n in range(3)]
    earlier = record(made[-1]).earlier
    assert [a.id for a in earlier] == [m["attempt"] for m in made[:2]]
    assert [(a.status, a.updates) for a in earlier] == [("finished", 4)] * 2
    assert [a.score for a in earlier] == [m["heldout"]["after"]["accuracy"] for m in made[:2]]
    assert {a.code for a in earlier} == {code_of(record(made[-1]).tags)} != {""}
    assert all(a.seen for a in earlier)
    held = json.loads((Path(made[-1]["folder"]) / "result.json").read_text())
    held["attempts"] = []
    (Path(made[-1]["folder"]) / "result.json").write_text(json.dumps(held))
    damage = read_folder(RunFolder(made[-1]["folder"])).damage
    assert "attempts was changed after the run ended" in damage


def test_it_is_remembered_when_what_was_set_aside_is_gone(tmp_path: Path) -> None:
    often = {"evaluation": {"prompts": 6, "every": 1}}
    run(tmp_path, **often)
    folder = Path(run(tmp_path, fresh=True, until="updates=1", **often)["folder"])
    shutil.rmtree(folder.with_name(f"{folder.name}.old-1"))
    assert [a.status for a in record(run(tmp_path, **often)).earlier] == ["finished"]


def test_one_put_back_knows_those_before_it_alone(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path, fresh=True)
    folder = Path(second["folder"])
    folder.rename(folder.with_name("later"))
    folder.with_name(f"{folder.name}.old-1").rename(folder)
    assert record(run(tmp_path)).earlier == () and run(tmp_path)["attempt"] == first["attempt"]


@pytest.mark.slow
@over(
    ("cut", "seen"),
    [("paused", True), ("killed", True), ("failed", False), ("failed, measured", True)],
)
def test_one_that_showed_nothing_may_be_started_over(tmp_path: Path, cut: str, seen: bool) -> None:
    measured = cut == "failed, measured"
    evaluation = {"prompts": 6, "every": 2}
    paused = run(tmp_path, until="updates=2", evaluation=evaluation)
    assert paused["status"] == "paused"
    folder = RunFolder(paused["folder"])
    if cut != "paused":
        (folder.path / "result.json").unlink()
        folder.set_status("running" if cut == "killed" else "failed")
        lines = (folder.path / "metrics.jsonl").read_text().splitlines(keepends=True)
        kept = [li for li in lines if measured or "heldout" not in li]
        (folder.path / "metrics.jsonl").write_text("".join(kept))
    (before,) = record(run(tmp_path, fresh=True, evaluation=evaluation)).earlier
    assert before.seen == seen and before.updates >= 2
    assert (before.score is not None) == (cut in ("paused", "failed, measured"))


def test_a_damaged_folder_can_be_set_aside(tmp_path: Path) -> None:
    folder = Path(run(tmp_path)["folder"])
    for name in ("run.json", "result.json", "status.json", "attempt"):
        (folder / name).write_text("{")
    (before,) = record(run(tmp_path, fresh=True)).earlier
    assert before.score is not None and before.seen


def test_what_was_to_be_compared_stands_once_something_was_measured(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"roster": {"seeds": [0, 1], "arms": ["grpo"]}, "baseline": "grpo"}
    later: dict[str, Any] = {
        "roster": {"seeds": [0, 1, 2], "arms": ["grpo", "dapo"]},
        "baseline": "dapo",
    }
    every = {"prompts": 6, "every": 1}
    assert run(tmp_path, until="updates=1", evaluation=every, **asked)["status"] == "paused"
    ended = run(tmp_path, evaluation=every, **later)
    assert ended["roster"] == asked["roster"]
    assert record(ended).tags["gfcr.baseline"] == "grpo"
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
