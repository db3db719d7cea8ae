"""`gfcr claims` and `gfcr regime` on the fake engine, from nothing to entries."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.claims import claim as claims
from benchmarks.claims import entry
from benchmarks.claims.claim import Claim
from benchmarks.claims.planned import power_of
from benchmarks.claims.study import ask
from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.values import reading
from tests.commands import gfcr
from tests.launchers import HERE, values_of

REGIME = {
    "about": "a test's",
    "holds": ["start.groups.live >= 0", "visits.mean >= 1"],
    **{"tokens": 200, "seconds": 30, "target": 0.5},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values = values_of(tmp_path / "runs", study="dense")
    (tmp_path / "dense.yaml").write_text(reading.write(values))
    (tmp_path / "dense.regime.yaml").write_text(reading.write(REGIME))
    return tmp_path


def _claims(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return gfcr("claims", "rloo", *words, "--regimes", folder, "--json", cwd=folder)


def _told(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_claim_is_planned_run_and_judged(folder: Path) -> None:
    (planned,) = _told(_claims(folder, "--seeds", 3))["claims"]
    assert planned["verdict"] is None and planned["power"]["source"] == "assumed"
    assert planned["power"]["left"] == 6 and planned["power"]["detectable"] > 0
    assert planned["power"]["kept_by"] is None, "the score is what is claimed"
    made = _told(
        _claims(
            folder,
            "--seeds",
            3,
            "--run",
            "--launcher",
            HERE,
            "--write",
            "entries",
            "--plot",
            "a.svg",
        )
    )
    (found,) = made["claims"]
    assert found["power"]["left"] == 0 and found["power"]["source"] == "paired runs"
    assert found["verdict"] in ("seen", "inconclusive", "contradicted")
    assert found["measured"]["seeds"] == [0, 1, 2] and not made["problems"]
    (again,) = _told(_claims(folder, "--seeds", 3))["claims"]
    assert again["power"] == found["power"], "what is left and shown is told after the runs"
    assert again["verdict"] == found["verdict"]
    (written,) = entry.read_all(folder / "entries")
    assert written["measured"] == json.loads(json.dumps(found["measured"]))
    assert {*written["arms"]} == {"grpo", "rloo"} and written["arms"]["rloo"]["runs"].keys() == {
        *"012"
    }
    assert "rloo: score at updates, dense" in (folder / "a.svg").read_text()
    (judged,) = entry.judged([written])
    assert judged.verdict == found["verdict"] and judged.q_value == found["q_value"]


@pytest.mark.slow
def test_a_claim_on_record_is_replicated_without_its_runs(folder: Path) -> None:
    words = ("--replicate", "--seeds", 2, "--launcher", HERE, "--write", "entries")
    assert _told(_claims(folder, *words))["claims"][0]["replication"] is None, "nothing decided"
    (asked,) = (ask(c, seeds=range(1000, 1002), folder=folder) for c in [claims.read("rloo")])
    found = asked.measured()
    assert found is not None
    known = entry.of_asked(asked, found=found, replication=asked)
    entry.write(known, folder=folder / "entries")
    (again,) = _told(_claims(folder, *words))["claims"]
    (written,) = entry.read_all(folder / "entries")
    assert written["measured"] == known["measured"] and written["arms"] == known["arms"]
    assert written["replication"]["seeds"] == again["replication"]["seeds"] == [1000, 1001, 1002]
    assert written["replicated"]["rloo"]["runs"].keys() == {"1000", "1001", "1002"}
    other = entry.of_asked(
        replace(asked, claim=replace(asked.claim, minimum_effect=0.9)),
        found=found,
        replication=asked,
    )
    entry.write(other, folder=folder / "entries")
    done = _claims(folder, *words)
    assert done.returncode == 2 and "is of another claim than rloo has now" in done.stderr


def test_a_saving_is_planned_for_both_of_its_parts(folder: Path) -> None:
    (folder / "saturated.yaml").write_text((folder / "dense.yaml").read_text())
    (folder / "saturated.regime.yaml").write_text((folder / "dense.regime.yaml").read_text())
    many = ("--set", "evaluation.prompts=1000")
    asked = ("claims", "selective_rollout", "--regimes", folder, *many, "--json")
    (planned,) = _told(gfcr(*asked, cwd=folder))["claims"]
    assert planned["margin"] == 0.03
    # A score that is equal is harder to show than a saving of that size is to find.
    assert planned["power"]["kept_by"] > 5
    claim = claims.read("selective_rollout")
    assert isinstance(claim, Claim)
    asked = ask(claim, seeds=range(5), folder=folder)
    alone, both = (power_of(asked, parts=parts).detectable for parts in (1, 2))
    assert alone < both == planned["power"]["detectable"], "the level is that of two p-values"


def test_an_entry_changed_by_hand_is_refused(folder: Path) -> None:
    _told(_claims(folder, "--seeds", 2, "--run", "--launcher", HERE, "--write", "entries"))
    path = folder / "entries" / "rloo.json"
    held = json.loads(path.read_text())
    held["measured"]["arm"][0] += 0.1
    path.write_text(json.dumps(held))
    with pytest.raises(ConfigError, match="changed by hand"):
        entry.read(path)
    path.write_text("[]")
    with pytest.raises(ConfigError, match="no entry of `gfcr claims`"):
        entry.read(path)


def test_what_is_asked_for_wrongly_is_named(folder: Path) -> None:
    done = _claims(folder, "--regime", "dence")
    assert done.returncode == 2 and "Did you mean 'dense'" in done.stderr
    done = gfcr("claims", "rlooo", cwd=folder)
    assert done.returncode == 2 and "unknown strategy 'rlooo'" in done.stderr
    done = gfcr("claims", "rloo", cwd=folder)
    assert done.returncode == 2 and "has no regime" in done.stderr


def test_all_claims_are_listed_with_those_that_cannot_be_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    done = gfcr("claims", "grpo", "rft", "--json")
    rows = _told(done)["claims"]
    assert [row["strategy"] for row in rows] == ["grpo", "rft"]
    assert {row["verdict"] for row in rows} == {"not testable here"}
    assert set(strategies.names()) >= {row["strategy"] for row in rows}


def test_a_regime_is_measured_and_checked(folder: Path) -> None:
    done = gfcr("regime", "dense.yaml", "--write", "card.json", "--json", cwd=folder)
    told = _told(done)
    assert told["conditions"] == dict.fromkeys(REGIME["holds"], True)
    card = json.loads((folder / "card.json").read_text())
    assert card["start"] == told["start"] and card["updates"] == 4
    again = _told(gfcr("regime", told["folder"], "--first", 1, "--json", cwd=folder))
    assert again["start"]["updates"] == 1 and again["whole"] == told["whole"]
    shutil.copytree(folder / told["folder"], folder / "dense[old]")
    assert gfcr("regime", "dense[old]", cwd=folder).stdout.endswith("run folder: dense[old]\n")
    (folder / "dense.regime.yaml").write_text(
        reading.write({**REGIME, "holds": ["visits.mean < 1"]})
    )
    done = gfcr("regime", "dense.yaml", "--json", cwd=folder)
    assert done.returncode == 1
    assert json.loads(done.stdout)["conditions"] == {"visits.mean < 1": False}
    done = gfcr("regime", told["folder"], "prompts=3", cwd=folder)
    assert done.returncode == 2 and "a run that has been made" in done.stderr


@pytest.mark.slow
def test_a_strategy_that_did_nothing_gets_no_verdict(folder: Path) -> None:
    for ending in (".yaml", ".regime.yaml"):
        (folder / f"cut{ending}").write_text((folder / f"dense{ending}").read_text())
    asked = ("--seeds", 2, "--run", "--launcher", HERE, "--write", "entries", "--plot", "a.svg")
    done = gfcr("claims", "overlong_filtering", *asked, "--regimes", folder, "--json", cwd=folder)
    assert done.returncode == 1, done.stdout
    told = json.loads(done.stdout)
    assert "It did nothing in cut" in told["problems"][0]
    assert told["claims"][0]["verdict"] is None
    assert not (folder / "entries").exists() and not (folder / "a.svg").exists()


def test_a_cost_of_0_is_told_and_not_compared(folder: Path) -> None:
    (folder / "sparse.yaml").write_text((folder / "dense.yaml").read_text())
    there_at_once = reading.write({**REGIME, "target": -1, "tokens": 20})
    (folder / "sparse.regime.yaml").write_text(there_at_once)
    asked = ("prompt_replay", "--seeds", 2, "--run", "--launcher", HERE, "--regimes", folder)
    done = gfcr("claims", *asked, "--json", cwd=folder)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    (problem,) = told["problems"]
    assert "prompt_replay: a run's cost by tokens_to_target is 0" in problem
    assert told["claims"][0]["measured"] is None and told["claims"][0]["power"]["left"] == 0
