"""Opens an MLflow store, searches it, and says what is wrong with one.

MLflow makes the tables of a SQLite store one by one, in some hundred statements, and cannot go on
from the middle: here a store is made whole or not at all. For one that is locked MLflow waits
minutes, and an older one it migrates: both are looked for before MLflow opens it.
"""

import shutil
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote

from gfcr.code import optional
from gfcr.errors import GfcrError, StoreError
from gfcr.process.environment import set_defaults

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

Points: TypeAlias = dict[tuple[str, int], list[float]]
"""Values by metric and step, those of one step in the order of their times."""
_ROOM, _WRITE = "make room on the store's disk", "end the process that locks it, or allow writing"
_REMEDIES: Final = {
    **dict.fromkeys(("disk is full", "No space left on device", "Disk quota exceeded"), _ROOM),
    **dict.fromkeys(("database is locked", "readonly database"), _WRITE),
    "maintenance mode": "set MLFLOW_ALLOW_FILE_STORE=true, or give it a sqlite:/// URI",
    "No module named": "install it",
    "Current state is deleted": "restore it in MLflow, or give tracking.experiment another name",
}
"""What to do about some errors, by words of SQLite, of the system or of MLflow."""
_BUSY_S = 20.0
"""Seconds that another process may take to write."""
_QUIET_S = 2.0
"""Seconds without a write after which nobody is making the rest of a half-made store."""
_GIVEN: Final = {"alembic_version", "workspaces"}
"""Tables that have a row as soon as they are made."""
_HALF_MADE: Final = "half-made"


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
        (_check_readable if reading else _prepare)(file)
    return MlflowClient(tracking_uri=full(uri))


def full(uri: str) -> str:
    """Returns the URI with the absolute path of a SQLite file."""
    return _uri(file) if (file := sqlite_file(uri)) else uri


def _uri(file: Path) -> str:
    """Returns the URI of a SQLite file, of whose path SQLAlchemy decodes what is written so."""
    return f"sqlite:///{str(file).replace('%', '%25').replace('?', '%3F')}"


def sqlite_file(uri: str) -> Path | None:
    """Returns the absolute path of a SQLite store; None for any other."""
    path = unquote(uri.removeprefix("sqlite:///"))
    return Path(path).resolve() if uri.startswith("sqlite:///") else None


def search(client: "MlflowClient", query: str) -> "Iterator[Run]":
    """Yields the runs of all experiments that match a query."""
    every = _pages(lambda token: client.search_experiments(page_token=token))  # pyright: ignore[reportUnknownMemberType]
    if experiments := [str(experiment.experiment_id) for experiment in every]:
        yield from _pages(lambda at: client.search_runs(experiments, query, page_token=at))


def _pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yields what all pages of an answer hold; `ask` gives the page of a token."""
    token: str | None = None
    while token != "":
        page = ask(token)
        yield from page
        token = page.token or ""


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
    except (MlflowException, SQLAlchemyError, OSError, ModuleNotFoundError) as error:
        raise StoreError(f"{what} cannot be used ({cause(error)}).") from error


def cause(error: Exception) -> str:
    """Returns what a store fails of, and what to do about it; without a full stop."""
    told = optional.missing(error) if isinstance(error, ModuleNotFoundError) else error
    if isinstance(told, GfcrError):
        return str(told).rstrip(".")
    other = "start the server, correct the address, or put the store back from a copy"
    remedy = next((what for words, what in _REMEDIES.items() if words in str(error)), other)
    return f"{type(error).__name__}: {_first_line(error)}; {remedy}"


def _prepare(file: Path) -> None:
    """Checks that the store can be written to; makes it where there is none, or half of one.

    Raises:
        StoreError: it cannot; gives the reason.
    """
    try:
        if file.exists():
            with closing(sqlite3.connect(file, timeout=_BUSY_S)) as connection:
                # This asks for the writers' lock, so that one that is held is told in seconds.
                connection.execute("BEGIN IMMEDIATE")
        while not file.exists() or _version(file) == _HALF_MADE:
            if not file.exists() or abs(time.time() - file.stat().st_mtime) > _QUIET_S:
                return _make(file)
            time.sleep(0.1)
    except Exception as error:
        raise _unusable(file, error=error) from error


def _make(file: Path) -> None:
    """Makes an empty store beside its place, and moves it there when it is whole."""
    from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH as ARTIFACTS
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    folder = file.with_name(f".{file.name}.new")
    shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
    folder.mkdir(parents=True)
    try:
        # Connections are closed before the move: SQLite's journal has the name that was opened.
        SqlAlchemyStore(_uri(folder / file.name), ARTIFACTS).engine.dispose()
        (folder / file.name).replace(file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_readable(file: Path) -> None:
    """Checks that the file holds this MLflow's tables.

    Raises:
        StoreError: it does not; gives the reason. Nothing was made.
    """
    upload = f"`gfcr upload --uri {_uri(file)} runs/`"
    if not file.exists():
        raise StoreError(
            f"tracking.uri: there is no file {file}. Run an experiment first, give the URI that it "
            f"was tracked with, or bring runs tracked elsewhere there with {upload}."
        )
    try:
        version = _version(file)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(file, error=error) from error
    if version == _HALF_MADE:
        raise StoreError(
            f"{file} does not hold the tables of a store: no run is in it, and whoever made it was "
            "ended before they were there. An experiment that is tracked there makes it again, and "
            f"so does {upload}."
        )
    if version != _head():
        raise StoreError(
            f"{file} does not hold the tables of this MLflow (version {version}, and {_head()} is "
            "wanted): it is another database, or another MLflow made it. Give the URI of the "
            f"store, or bring it up to date: mlflow db upgrade {_uri(file)}."
        )


def _version(file: Path) -> str | None:
    """Returns the version of the tables; None where they are not MLflow's.

    `_HALF_MADE` stands for no tables, and for those of MLflow without a row. Where it got to the
    end there is an experiment.
    """
    # Not `ro`: it could not undo what a process that was killed had begun to write.
    place = f"file:{quote(str(file))}?mode=rw"
    with closing(sqlite3.connect(place, uri=True, timeout=_BUSY_S)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = {str(name) for (name,) in found}
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchone() for name in names}
    empty = not any(row for name, row in rows.items() if name not in _GIVEN)
    if empty and (not names or "experiments" in names):
        return _HALF_MADE
    version = rows.get("alembic_version")
    return str(version[0]) if version else None


@cache
def _head() -> str:
    """Returns the version of the tables that the installed MLflow makes."""
    import mlflow.store
    from alembic.script import ScriptDirectory

    folder = Path(mlflow.store.__path__[0]) / "db_migrations"
    return str(ScriptDirectory(str(folder)).get_current_head())


def _first_line(error: Exception) -> str:
    """Returns what failed: an error's first line, or the next where SQLAlchemy remarks on it."""
    lines = str(error).strip().splitlines()
    return next((line for line in lines if not line.startswith("(raised as a result")), "")[:200]


def _unusable(file: Path, *, error: Exception) -> StoreError:
    left = getattr(error, "strerror", None) or _first_line(error)
    return StoreError(
        f"the store {file} cannot be used ({left}): give tracking.uri another file, on a disk with "
        "room that you may write to, or end the process that keeps it locked."
    )
