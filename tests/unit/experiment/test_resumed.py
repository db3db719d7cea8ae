"""A run goes on with the prompts, answers and code that it was left with, or is told to."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.errors import CheckpointError
from gfcr.experiment.rehearsal import rehearse
from gfcr.experiment.source import Pause
from gfcr.tracking.rollouts import read_rollouts

REWARD = "def reward(completion):\n    return float(len(completion))\n"


def write(folder: Path, *, asked: str = "1+{}", answer: str = "{}") -> None:
    rows = [{"prompt": asked.format(i), "answer": answer.format(i)} for i in range(24)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def values_of(folder: Path) -> dict[str, Any]:
    reward = {"verifier": f"{folder}/reward.py:reward"}
    return {
        "model": "none",
        "engine": {"name": "fake", "mean_length": 6},
        "trainer": {"name": "dry", "max_steps": 4, "save_every": 1},
        "tracking": {"name": "local"},
        "task": {
            **{"name": "dataset", "path": f"{folder}/rows.jsonl", "verifier": "numeric"},
            **{"rewards": {"long": reward}, "heldout_fraction": 0.4, "in_process": True},
        },
        "prompts": 2,
        "evaluation": {"prompts": 4, "every": 1},
        "folder": str(folder / "runs"),
    }


def config(folder: Path) -> Any:
    return configs.experiment(values_of(folder), where="t")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("answers", "the prompts to train on or their answers and the held-out prompts"),
        ("prompts", "the prompts to train on or their answers and the held-out prompts"),
        ("code", "reward.py"),
    ],
)
def test_what_was_exchanged_since_is_refused_before_training_unless_accepted(
    tmp_path: Path, changed: str, said: str
) -> None:
    write(tmp_path)
    (tmp_path / "reward.py").write_text(REWARD)
    left = experiment.run(config(tmp_path), until=Pause.parse("updates=2"))
    assert left["status"] == "paused"
    assert rehearse(config(tmp_path), fresh=False).would == "resume"
    if changed == "code":
        (tmp_path / "reward.py").write_text(REWARD.replace("len", "2 * len"))
    else:
        write(tmp_path, **({"answer": "7{}"} if changed == "answers" else {"asked": "2+{}"}))
    rehearsed = rehearse(config(tmp_path), fresh=False)
    assert rehearsed.would == "be refused" and said in rehearsed.detail
    assert rehearse(config(tmp_path), fresh=False, accepted=True).would == "resume"
    with pytest.raises(CheckpointError, match="give --accept data to go on") as error:
        experiment.run(config(tmp_path))
    assert said in str(error.value)
    left = experiment.run(config(tmp_path), accept_data=True, until=Pause.parse("updates=3"))
    assert experiment.run(config(tmp_path))["status"] == "finished", "what was accepted stays so"


def test_mended_answers_are_those_of_prompts_that_come_again(tmp_path: Path) -> None:
    values = {**values_of(tmp_path), "strategy": {"name": "grpo", "group_size": 2}, "prompts": 7}
    values["task"] = {**values["task"], "rewards": {}}
    write(tmp_path)
    mended = configs.experiment(values, where="t")
    experiment.run(mended, until=Pause.parse("updates=2"))
    write(tmp_path, answer="7{}")
    done = experiment.run(mended, accept_data=True)
    groups = [*read_rollouts(Path(done["folder"]) / "rollouts")]
    assert done["status"] == "finished" and groups[-1].prompt.answer.startswith("7")


def test_what_was_exchanged_is_looked_for_in_every_run_that_would_go_on(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "reward.py").write_text(REWARD)
    experiment.run(config(tmp_path), until=Pause.parse("updates=2"))
    write(tmp_path, asked="2+{}")
    assert rehearse(config(tmp_path), fresh=False, prompts=False).would == "be refused"


def test_what_is_the_same_goes_on_unasked(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "reward.py").write_text(REWARD)
    left = experiment.run(config(tmp_path), until=Pause.parse("updates=2"))
    cut = Path(left["folder"]) / "checkpoints" / "checkpoint-3"
    cut.mkdir()  # as by a kill while it was written
    assert rehearse(config(tmp_path), fresh=False).would == "resume" and cut.exists()
    assert experiment.run(config(tmp_path))["status"] == "finished"


def test_a_sweep_goes_on_with_other_prompts_where_it_is_told_to(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "reward.py").write_text(REWARD)
    study = sweep.from_values({**values_of(tmp_path), "arms": {"a": {}}, "study": "s"}, where="t")
    experiment.run(study.trials[0].config, until=Pause.parse("updates=2"))
    write(tmp_path, asked="2+{}")
    (refused,) = sweep.run(study)
    assert refused.status == "failed" and "give --accept data" in str(refused.problem)
    (accepted,) = sweep.run(replace(study, accept_data=True))
    assert accepted.status == "finished"
