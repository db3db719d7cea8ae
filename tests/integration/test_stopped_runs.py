"""Runs that a stopping rule gave up, in a real MLflow store. 11 s of CPU time."""

from pathlib import Path
from typing import Any

import pytest

from gfcr import leaderboard, sweep
from gfcr.sweep import decisions
from tests import stores
from tests.launchers import Here, values_of


def load(folder: Path, **changes: Any) -> sweep.Study:
    values = {
        "arms": {name: {"strategy": {"group_size": 2 + i}} for i, name in enumerate("abc")},
        "metric": "length/all/mean",
        "minimum_effect": 0.05,
        "seeds": [0, 1],
        "stopping": {"name": "halving", "first": 1, "factor": 3},
        "tracking": {"name": "mlflow", "uri": stores.sqlite(folder, "store.db")},
        **changes,
    }
    return Here.study(values_of(folder / "runs", **values))


@pytest.mark.whole
def test_the_store_tells_which_runs_were_stopped_and_why(tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    ends = sweep.run(load(tmp_path))
    stopped = {e.trial.run_id: e.problem for e in ends if e.status == "stopped"}
    assert stopped
    uri = f"sqlite:///{tmp_path}/store.db"
    client = MlflowClient(tracking_uri=uri)
    (where,) = [x for x in client.search_experiments() if x.name == "t"]
    runs = client.search_runs([where.experiment_id])
    tags = {r.data.tags.get("gfcr.run_id"): r for r in runs if "gfcr.seed" in r.data.tags}
    for run_id, why in stopped.items():
        assert tags[run_id].data.tags[decisions.STOPPED] == why
        assert tags[run_id].data.tags["gfcr.status"] == "stopped"
        assert tags[run_id].info.status == "KILLED"
    assert not any(decisions.STOPPED in r.data.tags for i, r in tags.items() if i not in stopped)
    board = leaderboard.build(uri, study="t")
    assert {e.run_id for e in board.excluded} == set(stopped)
    assert {run.data.tags["gfcr.minimum_effect"] for run in tags.values()} == {"0.05"}
    assert board.margin == 0.02  # The effect is on lengths; the table is of held-out scores.
    assert all("stopped early" in e.reason for e in board.excluded)
    # The rule lifted, they go on, and the table has all arms.
    sweep.run(load(tmp_path, stopping=None))
    assert {row.arm for row in leaderboard.build(uri, study="t").rows} == set("abc")
