"""A path that is not there is refused by name, before a Hub is asked or any work is done."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import gfcr

EXPERIMENT: dict[str, Any] = {
    "model": "models/qwen",
    "engine": "vllm",
    "trainer": "dry",
    "tracking": "local",
    "task": {"name": "chain_sum"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "it.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    (tmp_path / "models" / "qwen3").mkdir(parents=True)
    (tmp_path / "models" / "qwen3" / "config.json").write_text("{}")
    (tmp_path / "runs").mkdir()
    return tmp_path


CASES: dict[str, tuple[list[str], list[str]]] = {
    "model": (["run", "it.yaml"], ["model=models/qwen ", "Did you mean 'qwen3'?", "hf download"]),
    "deep model": (["run", "it.yaml", "model=./models/qwen"], ["Did you mean 'qwen3'?"]),
    "demo": (["run", "it.yaml", "model=demoo"], ["Did you mean 'demo'?"]),
    "tokenizer": (["run", "it.yaml", "model=models/qwen3"], ["models/qwen3 has no tokenizer"]),
    "file": (["run", "itt.yaml"], ["itt.yaml: no such file", "Did you mean 'it.yaml'?"]),
    "study": (["sweep", "itt.yaml"], ["Did you mean 'it.yaml'?"]),
    "board": (["leaderboard", "itt.yaml"], ["Did you mean 'it.yaml'?"]),
    "audit": (["audit", "--experiment", "itt.yaml"], ["Did you mean 'it.yaml'?"]),
    "upload": (["upload", "rns"], ["rns: no run folder", "Did you mean 'runs'?"]),
    "offline": (["offline", "rns", "--strategy", "grpo"], ["Did you mean 'runs'?"]),
    "simulate": (["simulate", "--from", "rns"], ["Did you mean 'runs'?"]),
    "rollouts": (["rollouts", "rns"], ["rns", "--folder"]),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_with_the_nearest_name(case: str, folder: Path) -> None:
    command, words = CASES[case]
    done = gfcr(*command, cwd=folder)
    assert done.returncode == 2 and not done.stdout, done.stderr
    for word in words:
        assert word in done.stderr


WRITE = {
    "claims": ["claims", "--plot"],
    "simulate": ["simulate", "--plot"],
    "card": ["regime", "it.yaml", "--write"],
    "speeds": ["bench", "speculation", "it.yaml", "--table"],
    "report": ["leaderboard", "it.yaml", "--html"],
    "board": ["leaderboard", "it.yaml", "--markdown"],
    "rows": ["leaderboard", "it.yaml", "--csv"],
}


@pytest.mark.parametrize("case", WRITE)
@pytest.mark.parametrize("file", ["no/folder/a.svg", "models"])
def test_what_cannot_be_written_is_refused_before_the_work(
    case: str, file: str, folder: Path
) -> None:
    done = gfcr(*WRITE[case], file, cwd=folder)
    assert done.returncode == 2 and not done.stdout, done.stderr
    assert f"{WRITE[case][-1]}: '{file}' is not allowed: give a file in a folder" in done.stderr
