"""The comparison of docs/simulate.md with published figures: what decides, and that it can fail."""

import json

import pytest

from benchmarks.published import check
from gfcr.cli import main
from tests.commands import gfcr


def test_the_check_passes_and_prints_one_json_object() -> None:
    done = gfcr("bench", "published", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["ok"] and not data["off"]
    assert {row["kind"] for row in data["rows"]} == {
        "arithmetic",
        "prediction",
        "not modelled",
        "projection",
    }


def test_every_row_that_is_not_modelled_misses_and_says_why() -> None:
    for row in check.rows():
        if row.kind == "not modelled":
            assert not row.holds and row.reason, f"{row.what} holds: let it decide"
        else:
            assert not row.reason


@pytest.mark.parametrize("factor", [0.94, 1.06])
def test_a_measured_figure_off_by_more_than_five_percent_fails(
    factor: float, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "BOUND", check.BOUND * factor)
    assert main(["bench", "published", "--json"]) == 1
    data = json.loads(capfd.readouterr().out)
    assert data["off"] == ["RL-Zero bound of the step speed-up"] and not data["ok"]


def test_predictions_do_not_depend_on_the_figure_they_are_compared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {row.what: row.ours for row in check.rows() if row.decides}
    monkeypatch.setattr(check, "BOUND", 1.0)
    monkeypatch.setitem(
        check.ZERO.by_init, "UltraChat, offline", check.Speculation(alpha=2.88, speed=9.0)
    )
    for draft, alpha in ((5, 3.23), (7, 3.48)):
        monkeypatch.setitem(check.THINK.by_draft, draft, check.Speculation(alpha=alpha, speed=9.0))
    assert {row.what: row.ours for row in check.rows() if row.decides} == before
