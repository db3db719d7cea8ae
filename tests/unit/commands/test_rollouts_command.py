"""`gfcr rollouts` of a run on the fake engine."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from gfcr.commands.rollouts import text_of
from gfcr.tracking.looked_at import look_at
from gfcr.tracking.parquet import write_corrections
from tests.cases import over
from tests.commands import gfcr

EXPERIMENT: dict[str, Any] = {
    "study": "t",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 3},
    "tracking": {"name": "local"},
    "strategy": {"name": "pods", "group_size": 4, "filters": {"pods": {"keep": 2}}},
    "prompts": 4,
    "evaluation": {"prompts": 4},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rollouts")
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump({**EXPERIMENT, "folder": str(folder / "runs")}))
    done = gfcr("run", file, "--json")
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["folder"])


def told(run: Path, *words: object) -> Any:
    done = gfcr("rollouts", run, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_shows_what_the_files_hold(run: Path) -> None:
    files = sorted((run / "rollouts").glob("*.parquet"))
    latest = look_at(files[-1])
    found = told(run, "--limit", 100)
    assert files[-1].stem == "update-000002" and found["updates"] == [3]
    assert sum(found["counts"].values()) == len(latest)
    for each, held in zip(found["rollouts"], latest, strict=True):
        rollout = held.rollout
        assert (each["rollout_id"], each["fate"]) == (rollout.id, held.fate)
        assert (each["prompt"], each["completion"]) == (rollout.prompt.text, rollout.text)
        assert (each["reward"], each["tokens"]) == (rollout.reward, len(rollout))
        assert bool(each["trained_tokens"]) == (held.fate == "trained")


def test_a_limit_leaves_one_of_each_pick(run: Path) -> None:
    assert len(told(run, "--limit", 1, "--best", "--worst")["rollouts"]) == 2
    assert "one a pick at least" in " ".join(gfcr("rollouts", "--help").stdout.split())


def test_it_shows_those_that_are_asked_for(run: Path) -> None:
    rejected = told(run, "--rejected", "--update", 2)
    assert rejected["updates"] == [2] and len(rejected["rollouts"]) == 8
    assert {each["fate"] for each in rejected["rollouts"]} == {"rejected: pods"}
    both = told(run, "--best", "--worst", "--limit", 2)["rollouts"]
    assert len(both) == 2 and both[0]["advantage"] >= both[1]["advantage"]
    fates = [each["fate"] for each in told(run, "--update", 2, "--limit", 999)["rollouts"]]
    worst = told(run, "--worst", "--update", 2, "--limit", 999)["rollouts"]
    assert len(worst) == fates.count("trained") > 0
    prompt = rejected["rollouts"][0]["prompt_id"]
    of_prompt = told(run, "--prompt", prompt)
    assert {each["prompt_id"] for each in of_prompt["rollouts"]} == {prompt}
    assert 2 in of_prompt["updates"]


def test_a_run_is_found_by_name_and_id(run: Path) -> None:
    below = run.parents[2]
    for name in ("pods/0", "t/pods/0", run.name.rpartition("-")[2], run.name):
        assert told(Path(name), "--folder", below)["folder"] == str(run)


def test_people_read_it_without_obeying_what_it_says(run: Path) -> None:
    shown = gfcr("rollouts", run, "--limit", 1)
    for word in (
        "update 3: ",
        "--- update 3,",
        "prompt:",
        "completion:",
        "answer:",
        "reward ",
        "advantage ",
    ):
        assert word in shown.stdout
    each = {**told(run)["rollouts"][0], "completion": "1\x1b[2J\n2"}
    assert "1\\x1b[2J\n  2" in text_of(each)


WRONG = {
    "pods/1": ([], "unknown run 'pods/1'"),
    "{run}": (["--update", "9"], "It has 1 to 3"),
    "{run}  ": (["--update", "0"], "give an integer from 1"),
    "{run} ": (["--prompt", "chain"], "unknown prompt 'chain'"),
    "{run}/..": ([], "holds no run"),
    "elsewhere": (["--folder", "none"], "no run below none"),
}


@over("text", WRONG)
def test_what_is_not_there_is_refused(text: str, run: Path) -> None:
    words, said = WRONG[text]
    place = [] if "--folder" in words else ["--folder", run.parents[2]]
    done = gfcr("rollouts", text.strip().format(run=run), *words, *place)
    assert done.returncode == 2 and said in done.stderr and not done.stdout


@pytest.mark.slow
def test_it_shows_who_proposed_a_problem(tmp_path: Path) -> None:
    task = {"name": "gfcr.testing.factories:CoinTask", "num_train": 8, "num_heldout": 4}
    values = {**EXPERIMENT, "strategy": "absolute_zero", "task": task, "folder": str(tmp_path)}
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(values))
    done = gfcr("run", file, "--json")
    assert done.returncode == 0, done.stderr
    run = Path(json.loads(done.stdout)["folder"])
    proposed = [e for e in told(run, "--limit", 100)["rollouts"] if e["proposed_by"]]
    earlier = {e["rollout_id"]: e for e in told(run, "--update", 2, "--limit", 100)["rollouts"]}
    asked = [e for e in proposed if e["proposed_by"] in earlier]
    assert asked and {e["proposed_at"] for e in asked} == {1}
    shown = text_of(asked[0])
    assert f"prompt, proposed by rollout {asked[0]['proposed_by']} at policy version 1:" in shown


def test_what_a_correction_made_is_shown(run: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(run, tmp_path / "run"))
    file = copied / "rollouts" / "update-000002.parquet"
    trained = next(each.rollout for each in look_at(file) if each.fate == "trained")
    first = np.arange(len(trained)) == 0
    made = {trained.id: (np.where(first, 0.5, 9).astype(np.float32), first)}
    write_corrections(copied / "rollouts", made=made, update=2)
    shown = {each["rollout_id"]: each for each in told(copied, "--limit", 99)["rollouts"]}
    own = shown.pop(trained.id)
    assert (own["correction_weight"], own["trained_tokens"]) == (0.5, 1)
    assert f"1 of {len(trained)} tokens trained, by a correction at 0.5 of" in text_of(own)
    assert {each["correction_weight"] for each in shown.values()} == {None}
