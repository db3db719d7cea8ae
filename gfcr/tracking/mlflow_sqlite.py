"""Makes a SQLite store whole or not at all, and checks one before MLflow opens it.

MLflow makes its tables one by one, in some hundred statements, and cannot go on from the middle.
For one that is locked it waits minutes, and an older one it migrates.
"""

import shutil
import sqlite3
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gfcr.errors import StoreError

_BUSY_S = 20.0
"""Seconds that another process may take to write."""
_QUIET_S = 2.0
"""Seconds without a write after which nobody is making the rest of a half-made store."""
_GIVEN: Final = {"alembic_version", "workspaces"}
"""Tables that have a row as soon as they are made."""
_HALF_MADE: Final = "half-made"


def prepare(file: Path) -> None:
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
        SqlAlchemyStore(f"sqlite:///{folder / file.name}", ARTIFACTS).engine.dispose()
        (folder / file.name).replace(file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_readable(file: Path) -> None:
    """Checks that the file holds this MLflow's tables.

    Raises:
        StoreError: it does not; gives the reason. Nothing was made.
    """
    upload = f"`gfcr upload --uri sqlite:///{file} runs/`"
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
            f"store, or bring it up to date: mlflow db upgrade sqlite:///{file}."
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
        held = {"experiments", "alembic_version"} & names
        asked = names if "experiments" in held else held
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchone() for name in asked}
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


def first_line(error: Exception) -> str:
    """Returns what failed: an error's first line, or the next where SQLAlchemy remarks on it."""
    lines = str(error).strip().splitlines()
    return next((line for line in lines if not line.startswith("(raised as a result")), "")[:200]


def _unusable(file: Path, *, error: Exception) -> StoreError:
    left = getattr(error, "strerror", None) or first_line(error)
    return StoreError(
        f"the store {file} cannot be used ({left}): give tracking.uri another file, on a disk with "
        "room that you may write to, or end the process that keeps it locked."
    )
