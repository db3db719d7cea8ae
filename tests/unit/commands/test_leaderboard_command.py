"""`gfcr leaderboard` reads the store of the study that it is given."""

from argparse import Namespace

import pytest

from gfcr import leaderboard
from gfcr.commands.leaderboard import asked
from gfcr.errors import ConfigError
from tests.studies import run

STUDY = """
study: there
task: {name: chain_sum}
engine: {name: fake}
trainer: {name: dry}
arms: {grpo: {strategy: grpo}}
"""


def test_a_study_s_file_names_its_store_and_an_option_another_one(tmp_path):
    file = tmp_path / "study.yaml"
    for tracking, uri in (
        ("{name: mlflow, uri: 'http://127.0.0.1:5000'}", "http://127.0.0.1:5000"),
        ("mlflow", "sqlite:///mlflow.db"),
        ("local", "sqlite:///mlflow.db"),
    ):
        file.write_text(f"{STUDY}tracking: {tracking}\n")
        name, runs, found, baseline = asked(Namespace(study=str(file), uri=None))
        assert (name, len(runs), found, baseline) == ("there", 1, uri, "grpo")
        assert asked(Namespace(study=str(file), uri="sqlite:///mine.db"))[2] == "sqlite:///mine.db"
    assert asked(Namespace(study="there", uri=None)) == ("there", {}, "sqlite:///mlflow.db", None)


def test_the_file_s_baseline_counts_where_it_has_runs(monkeypatch):
    named = {"tags": {"gfcr.baseline": "a"}}
    runs = [run(arm, seed, **named) for arm in "ab" for seed in (0, 1)]
    monkeypatch.setattr(leaderboard, "read_runs", lambda *_, **__: runs)
    for planned, meant in {None: "a", "a": "a", "b": "b", "renamed": "a"}.items():
        assert leaderboard.build("sqlite:///m.db", planned=planned).baseline == meant


def test_of_a_store_without_runs_it_says_how_they_get_there(monkeypatch):
    monkeypatch.setattr(leaderboard, "read_runs", lambda *_, **__: [])
    with pytest.raises(ConfigError, match=r"^sqlite:///m\.db holds no runs: .* --uri sqlite:///m"):
        leaderboard.read("sqlite:///m.db", study="there")
