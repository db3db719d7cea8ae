"""Checks a SQLite store before MLflow opens it: MLflow itself waits minutes, or migrates it."""

import os
import sqlite3
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote

from gfcr.errors import StoreError

_BUSY_S = 20.0
"""Seconds that another process may take to make the tables, or to write."""


def check_writable(file: Path) -> None:
    """Checks that the file can be written to, or can be made.

    Raises:
        StoreError: it cannot; gives the reason.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(file, timeout=_BUSY_S)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
    except (OSError, sqlite3.Error) as error:
        raise _unusable(file, error=error) from error


def check_readable(file: Path) -> None:
    """Checks that the file holds this MLflow's tables; waits while another process makes them.

    Raises:
        StoreError: it does not; gives the reason. Nothing was made or changed.
    """
    if not file.exists():
        raise StoreError(
            f"tracking.uri: there is no file {file}. Run an experiment first, give the URI that it "
            "was tracked with, or bring runs tracked elsewhere there with `gfcr upload runs/`."
        )
    began = time.monotonic()
    while (held := _revision(file)) != _head():
        # Perhaps somebody makes its tables just now.
        young = held is None or time.time() - file.stat().st_mtime < _BUSY_S
        if time.monotonic() - began > (_BUSY_S if young else 0.0):
            raise StoreError(
                f"{file} does not hold the tables of this MLflow (version {held}, and "
                f"{_head()} is wanted): it is another database, or another MLflow made it. Give "
                f"the URI of the store, or bring it up to date: mlflow db upgrade sqlite:///{file}."
            )
        time.sleep(0.2)


def _revision(file: Path) -> str | None:
    """Returns the version of the tables; None where there are none yet."""
    place = f"file:{quote(str(file))}?mode=ro"
    try:
        with closing(sqlite3.connect(place, uri=True, timeout=_BUSY_S)) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        if "no such table" in str(error):
            return None
        raise _unusable(file, error=error) from error
    return str(row[0]) if row else None


@cache
def _head() -> str:
    """Returns the version of the tables that the installed MLflow makes."""
    import mlflow.store
    from alembic.script import ScriptDirectory

    folder = Path(mlflow.store.__path__[0]) / "db_migrations"
    return str(ScriptDirectory(str(folder)).get_current_head())


def _unusable(file: Path, *, error: Exception) -> StoreError:
    left = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
    return StoreError(
        f"the store {file} cannot be used ({left}): give tracking.uri another file, on a disk with "
        "room that you may write to, or end the process that keeps it locked."
    )
