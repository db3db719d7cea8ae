"""Opens an MLflow store, and finds and makes runs in it."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gfcr.code import optional
from gfcr.errors import GfcrError
from gfcr.process.environment import set_defaults
from gfcr.tracking.mlflow_sqlite import check_readable, prepare
from gfcr.tracking.names import digest

if TYPE_CHECKING:
    from filelock import FileLock
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"
"""The tag with the text at the top of a run's page."""
_KIND = "mlflow.experimentKind"
_TRAINING = "custom_model_development"
"""The kind of experiment whose pages show runs; without it they show traces."""
_FULL = ("disk is full", "No space left on device", "Disk quota exceeded")
"""Words of SQLite and of the system in errors of a full disk."""
_Item = TypeVar("_Item")


def search(client: "MlflowClient", query: str) -> "Iterator[Run]":
    """Yields the runs of all experiments that match a query."""
    found = client.search_experiments()  # pyright: ignore[reportUnknownMemberType]
    experiments = [e.experiment_id for e in found]
    token: str | None = None
    while experiments:
        page = client.search_runs(experiments, query, page_token=token)
        yield from page
        token = str(page.token or "")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if not token:
            return


def list_files(
    client: "MlflowClient", *, run_id: str, folder: str | None = None
) -> dict[str, int | None]:
    """Returns the run's artifacts (in `folder`, or at the top) with their sizes in bytes."""
    found = client.list_artifacts(run_id, folder)  # pyright: ignore[reportUnknownMemberType]
    return {file.path: file.file_size for file in found}


def find_experiment(client: "MlflowClient", *, name: str, uri: str) -> str:
    """Returns the id of the experiment of this name, created when missing."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        if _KIND not in found.tags:
            client.set_experiment_tag(found.experiment_id, _KIND, _TRAINING)
        return found.experiment_id
    file = _sqlite_file(uri)
    # MLflow's own default is relative to whatever folder the reader happens to stand in.
    place = (file.parent / "mlartifacts" / digest(name)[:12]).as_uri() if file else None
    return client.create_experiment(name, artifact_location=place, tags={_KIND: _TRAINING})


def find_run(
    client: "MlflowClient",
    experiment: str,
    *,
    kind: str,
    names: tuple[str, ...],
    parent: "Run | None" = None,
) -> "Run":
    """Finds the run with these names, or creates it.

    If two machines create it at the same time, both take the older one afterwards.
    """
    key = digest((kind, *names))
    query = f"tags.`gfcr.key` = '{key}'"
    found = client.search_runs([experiment], query)
    if not found:
        tags = {"gfcr.key": key, "gfcr.kind": kind, "gfcr.study": names[0]}
        if parent is not None:
            tags[PARENT] = parent.info.run_id
        name = " / ".join(names[1:3]) or names[0]
        made = client.create_run(experiment, run_name=name, tags=tags)
        if kind != "seed":
            client.set_terminated(made.info.run_id)
        found = client.search_runs([experiment], query)
    return min(found, key=lambda run: (run.info.start_time, run.info.run_id))


def open_client(uri: str, *, reading: bool = False) -> "MlflowClient":
    """Opens the store without MLflow's own messages, and fails fast when it is down.

    Who writes holds the store's lock meanwhile.

    Args:
        uri: MLflow tracking URI.
        reading: whether to make and migrate nothing, and refuse a store that is missing or old.

    Raises:
        StoreError: it is a SQLite file that cannot be used.
    """
    set_defaults()
    from mlflow.tracking import MlflowClient

    file = _sqlite_file(uri)
    if file is not None:
        (check_readable if reading else prepare)(file)
    return MlflowClient(tracking_uri=full(uri))


def full(uri: str) -> str:
    """Returns the URI with the absolute path of a SQLite file."""
    file = _sqlite_file(uri)
    return f"sqlite:///{file}" if file else uri


def _sqlite_file(uri: str) -> Path | None:
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def short(error: Exception) -> str:
    """Returns what gfcr says of an error, or else its class and the first line of its message."""
    told = optional.missing(error) if isinstance(error, ModuleNotFoundError) else error
    if isinstance(told, GfcrError):
        return str(told).rstrip(".")
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def remedy(error: Exception) -> str:
    """Returns what to do about a store that fails with this error."""
    if is_full(error):
        return "Make room on the store's disk"
    return "Start the server, correct the address, or put the store back from a copy"


def is_full(error: Exception) -> bool:
    """Tells whether a store fails for want of room, here or on its server."""
    return any(words in str(error) for words in _FULL)


def batches(items: Sequence[_Item], *, size: int) -> Iterator[Sequence[_Item]]:
    """Yields the items in parts of at most `size`, for one request each."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def store_lock(uri: str) -> "FileLock":
    """Returns a lock for creating tables, experiments and parent runs from this machine."""
    from filelock import FileLock

    name = f"gfcr-{os.getuid()}-{digest(str(_sqlite_file(uri) or uri))[:16]}.lock"
    return FileLock(Path(tempfile.gettempdir()) / name, timeout=60)
