"""`gfcr run` on data and reward functions of one's own, from files and without a class."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from gfcr import config as configs
from gfcr import registry
from gfcr import strategy as strategies
from gfcr.control.judges.asked import Judged
from tests.cases import over
from tests.commands import gfcr
from tests.launchers import HERE

ALPHABET = "0123456789 +=abcdefghijklmnopqrstuvwxyz?"
FUNCTIONS = '''
"""Mine."""
seen = []

def vowels(prompts, completions, level, **columns):
    """The share of vowels."""
    seen.append(prompts)
    assert level[0]["hard"] >= 0 and columns["target"]
    return [sum(c in "aeiou" for c in text) / max(len(text), 1) for text in completions]

def brief(completion):
    return 1.0 / (1 + len(completion))

async def waits(completions, prompts, *, run, **columns):
    """Waits for others."""
    import asyncio, os
    await asyncio.sleep(0.001)
    return [float(os.getpid() != run) for _ in completions]

def remembers(completions, **columns):
    """More with each question, which makes it no function of prompt and text."""
    seen.append(completions)
    return [float(len(seen)) for _ in completions]

def nought(completions, **columns):
    """Nothing is right."""
    return [0.0] * len(completions)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"q": f"{i} + {i} =", "target": str(2 * i), "level": {"hard": i}} for i in range(60)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    return tmp_path


def experiment(folder: Path, **task: Any) -> Path:
    values = {
        "study": "mine",
        "model": "none",
        "engine": {"name": "fake", "mean_length": 6, "alphabet": ALPHABET},
        "trainer": {"name": "dry", "max_steps": 2, "save_every": 1},
        "tracking": {"name": "local"},
        "prompts": 4,
        "evaluation": {"prompts": 4},
        "folder": str(folder / "runs"),
        "task": {
            "name": "dataset",
            "path": str(folder / "data.jsonl"),
            "prompt_column": "q",
            "answer_column": "target",
            "heldout_fraction": 0.3,
            **task,
        },
    }
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def read_metrics(run: Path) -> list[dict[str, float]]:
    """Of each update that scored rollouts."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["metrics"] for line in lines if "reward/all" in line["metrics"]]


@pytest.mark.slow
def test_two_rewards_of_a_file_train_and_the_metric_is_another(folder: Path) -> None:
    mine = f"{folder}/mine.py"
    rewards = {
        "vowels": {"verifier": f"{mine}:vowels", "weight": 2.0},
        "brief": f"{mine}:brief",
    }
    done = gfcr("run", experiment(folder, verifier="exact", rewards=rewards), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["updates"] == 2 and result["reward_range"] == [0.0, 1.0]
    run = Path(result["folder"])
    metrics = read_metrics(run)[0]
    total = 2 * metrics["rewards/vowels/mean"] + metrics["rewards/brief/mean"]
    assert metrics["reward/all"] == pytest.approx(total)
    notes = pq.read_table(run / "rollouts" / "update-000000.parquet").to_pylist()[0]
    assert "rewards/vowels" in json.dumps(notes, default=str)


def test_held_out_answers_are_scored_by_the_function_and_once_more(folder: Path) -> None:
    done = gfcr("run", experiment(folder, verifier=f"{folder}/mine.py:vowels"), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["heldout"]["before"]["disagreed"] == 0, "it is asked again"
    assert 0 < result["heldout"]["after"]["accuracy"] < 1 and result["reward_range"] is None


@over(("verifier", "told"), [("exact", None), ("{folder}/mine.py:remembers", 4)])
def test_only_a_function_of_one_s_own_is_asked_twice_and_one_that_remembers_is_told_of(
    folder: Path, verifier: str, told: int | None
) -> None:
    done = gfcr("run", experiment(folder, verifier=verifier.format(folder=folder)), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["heldout"]["before"]["disagreed"] == told


@pytest.mark.slow
def test_a_coroutine_is_awaited_beside_generation(folder: Path) -> None:
    waits = {"verifier": f"{folder}/mine.py:waits", "options": {"run": os.getpid()}}
    rewards = {"waits": waits, "brief": f"{folder}/mine.py:brief"}
    done = gfcr("run", experiment(folder, verifier="exact", rewards=rewards), "--json")
    assert done.returncode == 0, done.stderr
    curve = read_metrics(Path(json.loads(done.stdout)["folder"]))
    assert [line["rewards/waits/mean"] for line in curve] == [1.0, 1.0]


@pytest.mark.slow
def test_a_finished_run_says_that_its_function_was_edited(folder: Path) -> None:
    path = experiment(folder, verifier="exact", rewards={"v": f"{folder}/mine.py:vowels"})
    first, same = (gfcr("run", path, "--json") for _ in range(2))
    assert first.returncode == same.returncode == 0 and "edited" not in same.stderr
    (folder / "mine.py").write_text(FUNCTIONS.replace("aeiou", "xyz"))
    again = gfcr("run", path, "--json")
    assert json.loads(again.stdout)["edited"] == [str(folder / "mine.py")]
    assert "was edited since: this is the result of the code before" in " ".join(
        again.stderr.split()
    )
    study = folder / "study.yaml"
    study.write_text(f"base: {path}\nlauncher: {HERE}\narms: {{grpo: {{}}}}\nseeds: [0]\n")
    swept = " ".join(gfcr("sweep", study).stdout.split())
    assert "mine.py was edited since finished trials ran: --fresh" in swept, swept


@pytest.mark.slow
def test_a_verifier_that_scores_all_alike_is_told_of_once(folder: Path) -> None:
    path = experiment(folder, verifier=f"{folder}/mine.py:nought")
    done = gfcr("run", path, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("have the reward 0: there is nothing to learn") == 1
    assert "Nothing is right." in done.stderr and "completion  '" in done.stderr
    assert any("nothing to learn" in said for said in json.loads(done.stdout)["warnings"])
    study = folder / "study.yaml"
    study.write_text(f"base: {path}\nlauncher: {HERE}\narms: {{grpo: {{}}}}\nseeds: [0, 1]\n")
    swept = " ".join(gfcr("sweep", study, "trainer.max_steps=8").stdout.split())
    assert "grpo/0: all" in swept and swept.count("nothing to learn") == 1, swept
    assert "Likewise in 1 more." in swept and "doctor finds dead_groups in 2" in swept, swept
    again = gfcr("run", experiment(folder, verifier=f"{folder}/mine.py:vowels"), "--json")
    assert "nothing to learn" not in again.stderr


def test_the_page_s_files_run_as_they_stand_and_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "rewards.md").read_text()
    files = re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', page, re.DOTALL)
    assert [name for name, _ in files] == [
        "questions.jsonl",
        "rewards.py",
        "mine.yaml",
        "judged.yaml",
    ]
    for name, text in files:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^gfcr (run .*)$", page, re.MULTILINE)
    small = ["model=none", "trainer={name: dry, max_steps: 2}", "tracking=local"]
    letters = "".join(map(chr, range(32, 127)))
    engine = json.dumps({"name": "fake", "mean_length": 6, "alphabet": letters})
    done = gfcr(*command.split(), "--json", *small, f"engine={engine}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["updates"] == 2 and "Generating" not in done.stderr
    judged = strategies.load(**configs.read_experiment("judged.yaml").strategy)
    judged.check()
    (judge,) = (part.judge for part in judged.hooks(Judged).values())
    assert registry.spec("judge", judge)["model"] == "my-judge"
