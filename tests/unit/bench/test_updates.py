"""`gfcr bench updates`: what an experiment's updates cost here."""

import json
from pathlib import Path

import pytest

from tests.commands import gfcr

BASE = Path(__file__).parents[3] / "experiments" / "quickstart" / "base.yaml"
FAKE = [
    *("model=none", "prompts=4", "strategy.group_size=4", "evaluation.prompts=4"),
    *("engine={name: fake, mean_length: 6}", "trainer={name: dry}"),
]


def test_an_experiment_s_updates_are_measured_and_leave_nothing(tmp_path: Path) -> None:
    small = ("budget.generated_tokens=10", "--updates", 3)  # it bounds a run, not what is measured
    done = gfcr("bench", "updates", BASE, *FAKE, *small, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["updates"], found["rollouts"], found["model"]) == (3, 16, "none")
    assert found["tokens"] > 16 and found["host_gib"] > 0.01
    assert found["rollout_s"] <= found["step_s"]  # the fake engine's own seconds are simulated
    assert found["tokens_per_s"] == pytest.approx(found["tokens"] / found["generate_s"])
    assert not list(tmp_path.iterdir())


def test_the_figures_are_a_row_of_a_page(tmp_path: Path) -> None:
    done = gfcr("bench", "updates", BASE, *FAKE, "--updates", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    head, rule, row = (line.split(" | ") for line in done.stdout.strip().splitlines())
    assert len(head) == len(rule) == len(row) and row[0] == "| none"
