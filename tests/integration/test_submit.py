"""`gfcr submit` on a real MLflow store, fake engine and dry trainer. Under a minute."""

import argparse
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from benchmarks.commands import submit as command
from benchmarks.entries.entry import file_names, read
from benchmarks.entries.recomputed import recomputed
from gfcr import config, experiment, sweep
from gfcr.errors import ConfigError, GfcrError
from gfcr.tracking.names import spec_hash
from tests import stores

SHARED = {
    "study": "sizes",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 2},
    "prompts": 4,
    "evaluation": {"prompts": 6, "every": 1},
    "minimum_effect": 0.05,
    "arms": {
        "dapo": {
            "strategy": {
                "name": "dapo",
                "filters": {"zero_variance": None, "soft_overlong": {"buffer": 0.3}},
                "controls": {"refill": None},
            }
        },
        "wide (16)": {"strategy": {"name": "grpo", "group_size": 6}},
    },
    "seeds": [0, 1, 2, 3, 4],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a study file, its store, and no run folders."""
    path = tmp_path_factory.mktemp("submit")
    tracking = {"name": "mlflow", "uri": stores.sqlite(path, "store.db")}
    values = {**SHARED, "folder": str(path / "runs"), "tracking": tracking}
    (path / "study.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    for trial in sweep.load(path / "study.yaml", overrides=[]).trials:
        experiment.run(trial.config)
    shutil.rmtree(path / "runs")
    return path


def submit(place, *arguments, study="study.yaml", name="first"):
    """The command's outcome: exit code and JSON."""
    uri, folder = f"sqlite:///{place / 'store.db'}", str(place / "board")
    given = [str(place / study), "--name", name, "--uri", uri, "--folder", folder, *arguments]
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    outcome = command.run(parser.parse_args(given))
    return outcome.code, outcome.data


# A checkout under test may have local changes, which is what `provenance` refuses.
CLEAN = ("--accept", "provenance")


@pytest.fixture(scope="module")
def entry(place):
    code, told = submit(place, *CLEAN)
    assert code == 0, told
    return Path(place / told["submitted"])


@pytest.mark.whole
def test_a_margin_that_was_chosen_after_the_runs_is_accepted_by_name_or_not_at_all(place):
    code, told = submit(place, *CLEAN, "--margin", "0.3", name="wide")
    assert code == 1 and not (place / "board" / "wide").exists()
    assert [p for p in told["problems"] if p.startswith("margin: 0.3 was chosen after the runs")]
    code, told = submit(place, *CLEAN, "--margin", "0.3", "--accept", "margin", name="wide")
    text = (Path(told["submitted"]) / "README.md").read_text()
    assert code == 0 and any(p.startswith("margin: 0.3") for p in told["accepted"])
    assert "Accepted by the submitter: margin: 0.3" in text
    assert "Margin 0.3 was chosen after the runs: the study's own is 0.05." in text
    code, told = submit(place, *CLEAN, "--margin", "0.01", name="narrow")
    assert code == 0, told


@pytest.mark.whole
def test_an_entry_tells_the_code_and_what_its_runs_were_given(entry):
    content = read(entry / "entry.json")
    for row in content["rows"]:
        told = row["provenance"]
        assert told["code"] == content["code"] and len(content["code"]) == 16
        assert {"digest.asking", "digest.heldout", "digest.training"} <= {*told}


def test_an_entry_holds_what_was_run_and_what_came_out(entry):
    assert {f.name for f in entry.iterdir()} == {
        *("README.md", "entry.json"),
        *("dapo.yaml", "wide--16-.yaml"),
    }
    content = read(entry / "entry.json")
    assert content["study"] == "sizes" and content["baseline"] == "dapo"
    assert content["margin"] == 0.05 and content["commit"]
    rows = {row["arm"]: row for row in content["rows"]}
    for row in rows.values():
        assert [run["seed"] for run in row["runs"]] == [0, 1, 2, 3, 4] == row["seeds"]
        assert row["score"]["value"] == pytest.approx(sum(r["score"] for r in row["runs"]) / 5)
        assert row["provenance"]["spec_hash"] == spec_hash(row["spec"])
        assert row["certificate"] == "none" and row["tokens"] > 0
    assert list(rows["dapo"]["spec"]["strategy"]["filters"]) == ["advantage", "soft_overlong"]
    assert "| wide (16) |" in (entry / "README.md").read_text()


@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.whole)])
def test_a_row_run_again_from_its_entry_is_the_same_run(place, entry, seed, tmp_path):
    rows = read(entry / "entry.json")["rows"]
    files = file_names([row["arm"] for row in rows])
    for row in rows:
        file = entry / files[row["arm"]]
        overrides = [f"seed={seed}", "tracking=local", f"folder={tmp_path}"]
        again = experiment.resolve(config.read_experiment(file, overrides=overrides))
        assert spec_hash(again.spec) == row["provenance"]["spec_hash"]
        (recorded,) = [run for run in row["runs"] if run["seed"] == seed]
        assert again.run_id == recorded["run_id"]
        result = experiment.run(again.config)
        assert result["heldout"]["after"]["accuracy"] == recorded["score"]
        assert result["tokens"] == recorded["tokens"]


@pytest.mark.whole
def test_submitting_twice_changes_nothing_and_another_entry_keeps_its_name(place, entry):
    before = {f: f.read_bytes() for f in entry.iterdir()}
    assert submit(place, *CLEAN)[0] == 0
    assert {f: f.read_bytes() for f in entry.iterdir()} == before
    with pytest.raises(ConfigError, match="holds another entry"):
        submit(place, *CLEAN, "--margin", "0.03")


def test_every_interval_and_verdict_can_be_computed_again_from_the_entry_alone(entry):
    content = read(entry / "entry.json")
    found = recomputed(content)
    for row in content["rows"]:
        again = found[row["arm"]]
        assert asdict(again.score) == pytest.approx(row["score"])
        if row["arm"] == content["baseline"]:
            assert again.versus is None
            continue
        assert again.versus.verdict == row["verdict"]
        assert again.versus.p_adjusted == pytest.approx(row["delta"]["p_adjusted"])
        difference = again.versus.comparison.difference
        limits = (difference.value, difference.low, difference.high)
        assert limits == pytest.approx([row["delta"][k] for k in ("value", "low", "high")])


def test_a_changed_entry_is_found_out(entry, tmp_path):
    content = json.loads((entry / "entry.json").read_text())
    content["rows"][0]["score"]["value"] = 0.99
    (tmp_path / "entry.json").write_text(json.dumps(content))
    with pytest.raises(GfcrError, match="changed after it was written"):
        read(tmp_path / "entry.json")


@pytest.mark.whole
def test_a_study_that_is_not_finished_is_refused_until_accepted(place):
    values = yaml.safe_load((place / "study.yaml").read_text())
    more = place / "more.yaml"
    more.write_text(yaml.safe_dump({**values, "seeds": [0, 1, 2, 3, 4, 5]}, sort_keys=False))
    code, told = submit(place, *CLEAN, study="more.yaml", name="more")
    assert code == 1 and told["submitted"] is None
    finished, ranked = told["problems"][:2], told["problems"][2:]
    assert finished == [
        "finished: dapo, seed 5 has not been run",
        "finished: wide (16), seed 5 has not been run",
    ]
    assert len(ranked) == 2 and all("no verdict over some of the seeds" in r for r in ranked)
    assert not (place / "board" / "more").exists()
    lax = ("--accept", "finished", "--accept", "ranked")
    code, told = submit(place, *CLEAN, *lax, study="more.yaml", name="more")
    assert code == 0
    accepted = read(place / told["submitted"] / "entry.json")["accepted"]
    assert "finished: dapo, seed 5 has not been run" in accepted
    assert "Accepted by the submitter" in (place / told["submitted"] / "README.md").read_text()


def test_a_seed_that_the_store_holds_twice_is_submitted_once(place, tmp_path):
    uri = stores.sqlite(tmp_path, "store.db")
    shutil.copy(place / "store.db", tmp_path / "store.db")
    trial = sweep.load(place / "study.yaml", overrides=[]).trials[0]
    tracking = {**trial.config.tracking, "uri": uri, "experiment": "again"}
    config = replace(trial.config, tracking=tracking, folder=str(tmp_path / "runs"))
    assert experiment.resolve(config).run_id == trial.run_id
    experiment.run(config)
    shutil.copy(place / "study.yaml", tmp_path)
    code, told = submit(tmp_path, *CLEAN, "--accept", "finished", name="twice")
    assert code == 0 and any("is here already" in p for p in told["accepted"]), told
    rows = {row["arm"]: row for row in read(Path(told["submitted"]) / "entry.json")["rows"]}
    for row in rows.values():
        assert [run["seed"] for run in row["runs"]] == [0, 1, 2, 3, 4]


def test_a_name_that_is_no_folder_s_is_refused(place):
    with pytest.raises(ConfigError, match="--name"):
        submit(place, *CLEAN, name="../up")
