"""Rollouts of an earlier run in the same folder are moved aside, and never over others."""

from pathlib import Path

from gfcr.drop_in.resumed import clear


def test_rollouts_are_set_aside_in_a_place_of_their_own(tmp_path: Path) -> None:
    for said in ("first", "second", "third"):
        (tmp_path / "rollouts").mkdir(exist_ok=True)
        (tmp_path / "rollouts" / "update-000000.parquet").write_text(said)
        clear(tmp_path / "rollouts", batches=0)
        if said == "second":
            (tmp_path / "rollouts.before-1").rename(tmp_path / "kept")
    held = {path.parent.name: path.read_text() for path in tmp_path.rglob("*.parquet")}
    assert held == {"kept": "first", "rollouts.before-1": "third", "rollouts.before-2": "second"}
