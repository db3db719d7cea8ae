"""Live displays in narrow terminals: no figure is cut."""

import io
import sys
from typing import Any

import pytest
from rich.console import Console

from gfcr.commands.audit_display import AuditDisplay
from gfcr.commands.display import RunDisplay
from gfcr.commands.sweep_display import SweepDisplay
from gfcr.experiment.source import Progress
from gfcr.sweep import Study, from_values
from tests.cases import over
from tests.launchers import HERE

METRICS = {
    "reward/all": 0.5234,
    "rollouts/trained": 123_456.0,
    "length/all/mean": 1234.0,
    "rate/rollout_tokens_per_s": 98_765.0,
    "rollouts/all": 200_000.0,
}


def drawn(renderables: Any, *, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    for each in renderables:
        console.print(each)
    text = console.export_text()
    assert "…" not in text and max(map(len, text.split("\n"))) <= width
    return text


@over("width", [60, 80])
def test_a_run_and_an_audit_show_their_figures_whole(width: int) -> None:
    run = RunDisplay(total=1000)
    run.show(Progress(update=999, metrics=METRICS, heldout=0.7351))
    text = drawn(run.get_renderables(), width=width)
    for figure in ("999/1000", "reward 0.52", "123456", "1234", "98765", "0.735"):
        assert figure in " ".join(text.split())
    audit = AuditDisplay(cells=120)
    audit.begin("a_drafter_of_a_long_name", "temperature 0.7 top_p 0.9")
    audit.progress(tokens=1, power=0.98, wanted=200_000_000)
    audit.progress(tokens=123_456_789, power=0.98, wanted=200_000_000)
    text = " ".join(drawn(audit.get_renderables(), width=width).split())
    assert "123,456,789 tokens" in text and "76,543,211 missing (" in text


def small() -> Study:
    arms = {"an_arm_with_a_rather_long_name": {"strategy": "grpo"}, "b": {"strategy": "rloo"}}
    return from_values(
        {"model": "none", "engine": "fake", "trainer": "dry", "launcher": HERE, "arms": arms},
        where="here",
    )


def test_a_terminal_that_nothing_can_be_drawn_over_gets_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rich draws nothing on one before the end."""
    said, study = io.StringIO(), small()
    monkeypatch.setattr(said, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setenv("TERM", "dumb")
    RunDisplay(total=9).show(Progress(update=1, metrics=METRICS, heldout=None))
    SweepDisplay(study).begin(study.trials[0])
    assert "update 1: reward 0.52" in said.getvalue() and "trial 1/2: an_arm" in said.getvalue()


@over("width", [60, 80])
def test_a_sweep_shows_its_trials_whole(width: int) -> None:
    study = small()
    tables: list[Any] = []
    display = SweepDisplay(study, show=tables.append)
    display.begin(study.trials[0])
    text = drawn(tables[-1:], width=width)
    assert "an_arm_with_a_rather_long_name/0" in text and "starting" in text
