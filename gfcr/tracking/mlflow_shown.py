"""What MLflow's pages show beside metrics: datasets, and a table of rollouts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gfcr.tracking.base import RunCard
from gfcr.tracking.looked_at import LookedAt, look_at, picked
from gfcr.tracking.names import DIGEST, SEVERAL

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput
    from mlflow.tracking import MlflowClient

TABLE: Final = "rollouts.json"
_TABLES: Final = "mlflow.loggedArtifacts"
"""Tag by which MLflow's pages find tables; `MlflowClient.log_table` sets it, but only appends."""
_UPDATES: Final = 8
_EACH: Final = 2
_CONTEXTS: Final = {"training": "training", "heldout": "evaluation"}
"""MLflow's context of a dataset, by the last word of the tag with its digest."""


def datasets_of(card: RunCard) -> "Iterator[DatasetInput]":
    """Yields the training and held-out datasets, as far as the run's card names them."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    task: Any = card.spec.get("task", {})
    for word, context in _CONTEXTS.items():
        split = (word == "heldout" and task.get("heldout_split")) or task.get("split")
        # Several, where a run went on with other data.
        for digest in filter(None, card.tags.get(f"{DIGEST}{word}", "").split(SEVERAL)):
            name, kind, source = _source(task, split=split)
            dataset = Dataset(name, digest, kind, json.dumps(source))
            yield DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


def _source(task: Mapping[str, Any], *, split: str | None) -> tuple[str, str, dict[str, Any]]:
    """Returns a dataset's name, MLflow's word for the kind of its source, and the source."""
    if (path := task.get("path")) is None:
        made_by = {"mlflow.source.type": "TASK", "mlflow.source.name": task["name"]}
        return str(task.get("dataset", task["name"])), "code", {"tags": made_by}
    if Path(path).exists():
        return Path(path).name, "local", {"uri": Path(path).resolve().as_uri()}
    source = {"path": path, "config_name": task.get("subset") or None, "split": split}
    return str(path), "hugging_face", source


def log_table(client: "MlflowClient", run_id: str, *, files: Sequence[Path]) -> None:
    """Writes the best, worst and rejected rollouts of some updates, replacing an earlier table.

    The rollout files are given in order of updates; the first and the last are among those shown.
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
    client.log_text(run_id, json.dumps(table), TABLE)
    client.set_tag(run_id, _TABLES, json.dumps([{"path": TABLE, "type": "table"}]))


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
