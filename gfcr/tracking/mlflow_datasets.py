"""The datasets of a run as MLflow inputs: name, digest, source and use."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gfcr.tracking.base import RunCard

if TYPE_CHECKING:
    from mlflow.data.dataset_source import DatasetSource
    from mlflow.entities import DatasetInput

_CONTEXTS: Final = {"training": "training", "heldout": "evaluation"}
"""MLflow's context of a dataset, by the last word of the tag `gfcr.digest.<word>`."""
_NAMED: Final = ("path", "dataset", "name")
"""Keys of a task's spec that name its data, the most specific first."""


def datasets_of(card: RunCard) -> "Iterator[DatasetInput]":
    """Yields the training and held-out datasets, as far as the run's card names them."""
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.entities import DatasetInput, InputTag
    from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

    task: Any = card.spec.get("task", {})
    for word, context in _CONTEXTS.items():
        split = (word == "heldout" and task.get("heldout_split")) or task.get("split")
        # Several, where a run went on with other data.
        for digest in filter(None, card.tags.get(f"gfcr.digest.{word}", "").split(" | ")):
            made = MetaDataset(_source(task, split=split), name=_name(task), digest=digest)
            held = made._to_mlflow_entity()  # pyright: ignore[reportPrivateUsage]
            yield DatasetInput(held, [InputTag(MLFLOW_DATASET_CONTEXT, context)])


def _name(task: Mapping[str, Any]) -> str:
    found = next(str(task[key]) for key in _NAMED if key in task)
    return Path(found).name if Path(found).exists() else found


def _source(task: Mapping[str, Any], *, split: str | None) -> "DatasetSource":
    from mlflow.data import sources
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.huggingface_dataset_source import HuggingFaceDatasetSource

    if (path := task.get("path")) is None:
        return CodeDatasetSource({"mlflow.source.type": "TASK", "mlflow.source.name": task["name"]})
    if Path(path).exists():
        made: Any = sources  # its classes are made when it is imported
        return made.LocalArtifactDatasetSource(Path(path).resolve().as_uri())
    return HuggingFaceDatasetSource(path, config_name=task.get("subset") or None, split=split)
