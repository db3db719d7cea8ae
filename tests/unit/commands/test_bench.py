"""`gfcr bench` where there are no benchmarks: it says where they are, and disturbs nothing else."""

import json
from pathlib import Path

import pytest

from gfcr.commands import bench
from tests.cases import over
from tests.commands import gfcr


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path)


@over("words", [[], ["overhead"], ["ranking", "t", "--arms", "3", "--json"]])
def test_it_says_that_they_come_with_a_checkout(words: list[str]) -> None:
    done = gfcr("bench", *words)
    assert done.returncode == 2 and "git clone" in done.stderr and "make setup" in done.stderr


def test_programs_are_told_too() -> None:
    done = gfcr("bench", "--json")
    assert done.returncode == 2 and "checkout" in json.loads(done.stdout)["error"]


def test_help_and_completion_do_without() -> None:
    assert "Measure gfcr" in gfcr("bench", "--help").stdout
    assert "leaderboard" in gfcr("completion", "zsh").stdout
