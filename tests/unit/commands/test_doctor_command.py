"""`gfcr doctor` on runs of the fake engine."""

import json
import shutil
from pathlib import Path

import pytest

from gfcr.doctor import History, plot
from gfcr.doctor.diagnosis import every
from gfcr.shown import picture
from gfcr.values import reading
from tests.commands import gfcr
from tests.launchers import values_of


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run whose cap cuts every answer, and what was said while it ran."""
    folder = tmp_path_factory.mktemp("cut")
    values = values_of(folder / "runs", trainer={"name": "dry", "max_steps": 6})
    values["sampling"] = {"max_tokens": 1}
    (folder / "cut.yaml").write_text(reading.write(values))
    done = gfcr("run", folder / "cut.yaml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["folder"]), done.stderr


def test_a_run_says_what_is_found_when_it_is(cut: tuple[Path, str]) -> None:
    said = [line for line in cut[1].splitlines() if "truncation: " in line]
    assert len(said) == 1 and said[0].startswith("update 5: "), cut[1]


def test_findings_come_with_levers_and_exit_code_1(cut: tuple[Path, str]) -> None:
    folder, _ = cut
    done = gfcr("doctor", folder, "--json", cwd=folder)
    (told,) = json.loads(done.stdout)
    assert done.returncode == 1 and told["run"] == str(folder) and told["updates"] == 6
    (found,) = (f for f in told["findings"] if f["rule"] == "truncation")
    assert found["figure"] > 0.5 and found["limit"] == 0.1
    assert found["levers"][1]["overrides"] == ["sampling.max_tokens=2"]
    assert "wasted_drafts" in told["unmeasured"] and told["silent"]["unscorable"] == 0
    text = gfcr("doctor", folder, cwd=folder).stdout
    assert "'strategy.filters.truncation={name: truncation_gate}'" in text


def test_rules_that_want_more_updates_say_how_many(tmp_path: Path) -> None:
    values = values_of(tmp_path / "runs", trainer={"name": "dry", "max_steps": 2})
    (tmp_path / "brief.yaml").write_text(reading.write(values))
    folder = json.loads(gfcr("run", tmp_path / "brief.yaml", "--json", cwd=tmp_path).stdout)[
        "folder"
    ]
    (told,) = json.loads(gfcr("doctor", folder, "--json", cwd=tmp_path).stdout)
    # Its log ends with an evaluation, which has none of an update's metrics.
    assert told["later"]["truncation"] == 5 and told["later"]["length_inflation"] == 10
    assert "wasted_drafts" in told["unmeasured"]
    assert "truncation (update 5)" in gfcr("doctor", folder, cwd=tmp_path).stdout


def test_a_picture_is_drawn_of_one_run(cut: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = cut
    done = gfcr("doctor", folder, "--plot", tmp_path / "a.svg", cwd=folder)
    assert done.returncode == 1 and "truncation: " in (tmp_path / "a.svg").read_text()
    axes, rule = picture.new(4, 3).subplots(), next(r for r in every() if r.name == "policy_jump")
    bad = {"reward/all": -0.5, "train/entropy": 1.0, "length/all/mean": 9.0}
    plot._panel(axes, rule, 0.0, history=History([(1, bad), (2, bad)]))
    assert axes.get_ylim()[0] < -0.5, "rewards may lie below 0"
    done = gfcr("doctor", folder, folder, "--plot", tmp_path / "b.svg", cwd=folder)
    assert done.returncode == 2 and "give one RUN" in done.stderr


def test_a_run_is_named_as_for_its_rollouts(cut: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = cut
    done = gfcr("doctor", "grpo/0", "--folder", folder.parents[2], "--json", cwd=tmp_path)
    assert done.returncode == 1 and json.loads(done.stdout)[0]["run"] == str(folder)
    done = gfcr("doctor", tmp_path, cwd=tmp_path)
    assert done.returncode == 2 and "holds no run" in done.stderr


def test_a_run_whose_rollouts_were_removed_is_diagnosed_all_the_same(
    cut: tuple[Path, str], tmp_path: Path
) -> None:
    folder = tmp_path / "runs/t/grpo" / cut[0].name
    shutil.copytree(cut[0], folder, ignore=shutil.ignore_patterns("rollouts"))
    for given in (folder, "grpo/0"):
        assert gfcr("doctor", given, cwd=tmp_path).returncode == 1
        shown = gfcr("rollouts", given, cwd=tmp_path)
        assert shown.returncode == 2 and "has no rollouts: they were removed" in shown.stderr
