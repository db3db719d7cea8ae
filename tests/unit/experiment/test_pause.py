"""A run that stops for now and goes on later is the run that never stopped."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from gfcr import config as configs
from gfcr import experiment
from gfcr.errors import CheckpointError, ConfigError, ForeignCheckpointError
from gfcr.experiment.heldout import Heldout
from gfcr.experiment.source import Pause, RunSource
from gfcr.tracking.folder import RunFolder
from tests.cases import over

VALUES: dict[str, Any] = {
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 6},
    "tracking": {"name": "local"},
    "prompts": 4,
    "evaluation": {"prompts": 6, "every": 2},
}


def run(folder: Path, until: str | None = None, **changes: Any) -> dict[str, Any]:
    config = configs.experiment({**VALUES, "folder": str(folder), **changes}, where="t")
    return experiment.run(config, until=Pause.parse(until) if until else None)


@pytest.mark.slow
@over("strategy", ["april", "repo"])
def test_paused_and_continued_it_is_the_same_run(strategy: str, tmp_path: Path) -> None:
    whole = run(tmp_path / "a", strategy={"name": strategy})
    paused = [run(tmp_path / "b", f"updates={n}", strategy={"name": strategy}) for n in (1, 4)]
    assert [p["status"] for p in paused] == ["paused"] * 2
    # The first evaluation at or after update 1 is that of update 2.
    assert [p["updates"] for p in paused] == [2, 4]
    parts = run(tmp_path / "b", strategy={"name": strategy})
    assert parts["status"] == "finished" and parts["resumed_from"] == 4
    assert parts["tokens"] == whole["tokens"] and parts["heldout"] == whole["heldout"]
    assert [(p[0], p[1], p[3]) for p in parts["curve"]] == [
        (p[0], p[1], p[3]) for p in whole["curve"]
    ]


def test_tokens_pause_at_the_first_evaluation_that_has_spent_them(tmp_path: Path) -> None:
    whole = run(tmp_path / "a")
    spent = [point[1] for point in whole["curve"]]
    paused = run(tmp_path / "b", f"generated_tokens={spent[1] + 1}")
    assert paused["updates"] == 4 and paused["curve"][-1][1] == spent[2]
    # Its result is the sum of all its updates, of both sessions.
    done = run(tmp_path / "b")
    lines = [line.metrics for line in RunFolder(done["folder"]).metrics()]
    made = [metrics for metrics in lines if "time/step_s" in metrics]
    time = {key: sum(metrics[f"time/{key}"] for metrics in made) for key in done["time"]}
    assert done["time"] == pytest.approx(time)
    assert time["step_s"] == pytest.approx(time["rollout_s"] + time["sync_s"] + time["train_s"])
    assert done["sync_share"] == pytest.approx(time["sync_s"] / time["step_s"])
    assert spent[-1] == done["tokens"]["generated"] - done["tokens"]["evaluation"]
    assert done["rollout_tokens_per_s"] == pytest.approx(spent[-1] / time["rollout_s"])
    assert done["forward_passes"] == sum(metrics["engine/forward_passes"] for metrics in made)
    assert done["verifier_calls"] == sum(metrics["cost/verifier_calls"] for metrics in made)


def test_a_paused_run_is_there_already(tmp_path: Path) -> None:
    first = run(tmp_path, "updates=4")
    again = run(tmp_path, "updates=2")
    assert again == first and RunFolder(first["folder"]).status == "paused"


def test_a_pause_that_no_evaluation_comes_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"until updates=2: .* evaluation.every=0"):
        run(tmp_path, "updates=2", evaluation={"prompts": 6})


def test_the_end_comes_before_a_later_pause(tmp_path: Path) -> None:
    assert run(tmp_path / "a", "updates=6")["status"] == "finished"
    assert run(tmp_path / "b", "updates=60")["status"] == "finished"
    budget = {"verifier_calls": 1}
    assert run(tmp_path / "c", "updates=2", budget=budget)["status"] == "finished"
    lag = {"name": "lag", "updates": 3}
    ahead: dict[str, Any] = {"schedule": lag, "budget": {"verifier_calls": 96}}
    whole, paused = run(tmp_path / "d", **ahead), run(tmp_path / "e", "updates=2", **ahead)
    assert paused["status"] == "paused", "what was made ahead is still to be learned from"
    curves = [[point[0] for point in r["curve"]] for r in (whole, run(tmp_path / "e", **ahead))]
    assert curves == [[0, 2, 3]] * 2, "a run that begins no batch is still evaluated"


def transplanted(donor: Path, onto: Path) -> None:
    """Another run's training under the name of a run that was paused."""
    for name in ("checkpoints", "rollouts"):
        shutil.rmtree(onto / name)
        shutil.copytree(donor / name, onto / name)
    shutil.copy(donor / "metrics.jsonl", onto / "metrics.jsonl")


@pytest.mark.whole
@over(
    "other",
    [
        {"trainer": {"name": "dry", "max_steps": 7}},
        {"seed": 1},
        {"strategy": {"name": "grpo", "group_size": 2}},
        {},
    ],
    ids=["trainer", "seed", "strategy", "attempt"],
)
@over("until", ["updates=2", "updates=4"])
def test_a_paused_run_goes_on_from_no_other_run_s_checkpoint(
    other: dict[str, Any], until: str, tmp_path: Path
) -> None:
    donor = Path(run(tmp_path / "donor", until, **other)["folder"])
    folder = Path(run(tmp_path / "own", "updates=2")["folder"])
    shutil.copytree(folder, tmp_path / "kept")
    transplanted(donor, folder)
    theirs = RunFolder(donor).whose()
    files = sorted((folder / "checkpoints").iterdir())
    with pytest.raises(ForeignCheckpointError, match=f"{theirs}, and this is .*--fresh"):
        run(tmp_path / "own")
    assert sorted((folder / "checkpoints").iterdir()) == files
    assert (folder / "metrics.jsonl").read_bytes() == (donor / "metrics.jsonl").read_bytes()
    transplanted(tmp_path / "kept", folder)
    done = run(tmp_path / "own")
    assert done["status"] == "finished" and done["resumed_from"] == 2


@pytest.mark.slow
@over("held", [b"", b"\xff", None])
def test_a_run_whose_attempt_is_lost_does_not_go_on(held: bytes | None, tmp_path: Path) -> None:
    folder = Path(run(tmp_path, "updates=2")["folder"])
    (folder / "attempt").unlink()
    if held is not None:
        (folder / "attempt").write_bytes(held)
    with pytest.raises(CheckpointError, match=r"attempt.*--fresh"):
        run(tmp_path)


@over("text", ["updates", "updates=x", "tokens=3", "updates=-1", ""])
def test_another_pause_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="updates=NUMBER"):
        Pause.parse(text)


@over(("seconds", "stopped_by"), [(1000.0, None), (1e-6, "seconds")])
def test_what_ends_a_run_is_known_before_its_last_evaluation_takes_more_seconds(
    seconds: float, stopped_by: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = RunSource.evaluate

    def slowly(source: RunSource, *, update: int) -> Heldout:
        source.memory.elapsed_s += 2000.0 * (update == 6)
        return asked(source, update=update)

    monkeypatch.setattr(RunSource, "evaluate", slowly)
    ended = run(tmp_path, budget={"seconds": seconds})
    assert ended["status"] == "finished" and ended["stopped_by"] == stopped_by
    assert ended["updates"] == (0 if stopped_by else 6)
