"""Opens an MLflow store, searches it, and says what is wrong with one."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from gfcr.code import optional
from gfcr.errors import GfcrError, StoreError
from gfcr.process.environment import set_defaults
from gfcr.tracking.mlflow_sqlite import check_readable, first_line, prepare

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

Points: TypeAlias = dict[tuple[str, int], list[float]]
"""Values by metric and step, those of one step in the order of their times."""
_ROOM, _WRITE = "make room on the store's disk", "end the process that locks it, or allow writing"
_REMEDIES: Final = {
    **dict.fromkeys(("disk is full", "No space left on device", "Disk quota exceeded"), _ROOM),
    **dict.fromkeys(("database is locked", "readonly database"), _WRITE),
}
"""What to do about some errors, by words of SQLite or of the system."""


def open_client(uri: str, *, reading: bool = False) -> "MlflowClient":
    """Opens the store without MLflow's own messages, and fails fast when it is down.

    Args:
        uri: MLflow tracking URI.
        reading: whether to make and migrate nothing, and refuse a store that is missing or old.
            Who writes holds the store's lock.

    Raises:
        StoreError: it is a SQLite file that cannot be used.
    """
    set_defaults()
    from mlflow.tracking import MlflowClient

    if (file := sqlite_file(uri)) is not None:
        (check_readable if reading else prepare)(file)
    return MlflowClient(tracking_uri=full(uri))


def full(uri: str) -> str:
    """Returns the URI with the absolute path of a SQLite file."""
    return f"sqlite:///{file}" if (file := sqlite_file(uri)) else uri


def sqlite_file(uri: str) -> Path | None:
    """Returns the absolute path of a SQLite store; None for any other."""
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def search(client: "MlflowClient", query: str) -> "Iterator[Run]":
    """Yields the runs of all experiments that match a query."""
    found = client.search_experiments()  # pyright: ignore[reportUnknownMemberType]
    experiments = [e.experiment_id for e in found]
    token: str | None = None
    while experiments and token != "":
        page = client.search_runs(experiments, query, page_token=token)
        yield from page
        token = str(page.token or "")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def list_files(
    client: "MlflowClient", *, run_id: str, folder: str | None = None
) -> dict[str, int | None]:
    """Returns the run's artifacts (in `folder`, or at the top) with their sizes in bytes."""
    found = client.list_artifacts(run_id, folder)  # pyright: ignore[reportUnknownMemberType]
    return {file.path: file.file_size for file in found}


def read_points(client: "MlflowClient", run: "Run", *, keys: Iterable[str]) -> Points:
    """Returns the points of those metrics of a run that it has."""
    found: Points = {}
    for key in keys:
        if key in run.data.metrics:
            points = client.get_metric_history(run.info.run_id, key)
            # MLflow promises no order, and of several points of a step the latest counts.
            for point in sorted(points, key=lambda p: p.timestamp):
                found.setdefault((key, point.step), []).append(point.value)
    return found


@contextmanager
def telling(what: str) -> Generator[None]:
    """Turns the errors of a store into a `StoreError`, which says what cannot be used."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        raise StoreError(f"{what} cannot be used ({cause(error)}).") from error


def cause(error: Exception) -> str:
    """Returns what a store fails of, and what to do about it; without a full stop."""
    told = optional.missing(error) if isinstance(error, ModuleNotFoundError) else error
    if isinstance(told, GfcrError):
        return str(told).rstrip(".")
    other = "start the server, correct the address, or put the store back from a copy"
    remedy = next((what for words, what in _REMEDIES.items() if words in str(error)), other)
    return f"{type(error).__name__}: {first_line(error)}; {remedy}"
