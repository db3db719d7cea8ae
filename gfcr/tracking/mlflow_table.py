"""A few rollouts of a run as a table that MLflow's pages show."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gfcr.tracking.looked_at import LookedAt, look_at, picked

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

FILE: Final = "rollouts.json"
_TAG: Final = "mlflow.loggedArtifacts"
"""Tag by which MLflow's pages find tables; `MlflowClient.log_table` sets it, but only appends."""
_UPDATES: Final = 8
_EACH: Final = 2


def log_table(client: "MlflowClient", run_id: str, *, files: list[Path]) -> None:
    """Writes the best, worst and rejected rollouts of some updates, replacing an earlier table.

    Args:
        client: the client of the store.
        run_id: MLflow's id of the run.
        files: the rollout files in order of updates; the first and the last are among those
            shown.
    """
    last = len(files) - 1
    places = sorted({round(last * at / (_UPDATES - 1)) for at in range(_UPDATES)}) if files else ()
    rows = [
        _row(each, pick=pick)
        for place in places
        for pick, found in picked(look_at(files[place]), each=_EACH).items()
        for each in found
    ]
    if not rows:
        return
    table = {"columns": [*rows[0]], "data": [[*row.values()] for row in rows]}
    client.log_text(run_id, json.dumps(table), FILE)
    client.set_tag(run_id, _TAG, json.dumps([{"path": FILE, "type": "table"}]))


def _row(each: LookedAt, *, pick: str) -> dict[str, Any]:
    rollout = each.rollout
    return {
        "update": each.update,
        "picked as": pick,
        "reward": rollout.reward,
        "advantage": each.mean_advantage,
        "fate": each.fate,
        "prompt": rollout.prompt.text,
        "completion": rollout.text,
        "answer": rollout.prompt.answer,
        "tokens": len(rollout),
        "finish": rollout.finish.value,
    }
