"""MLflow stores for the tests, copied from an empty one: making the tables takes seconds."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from gfcr.tracking.mlflow_client import open_client


@cache
def empty() -> Path:
    """A SQLite store without runs."""
    path = Path(tempfile.mkdtemp(prefix="gfcr-mlflow-")) / "empty.db"
    atexit.register(shutil.rmtree, path.parent)
    open_client(f"sqlite:///{path}").search_experiments()
    return path


def sqlite(folder: Path, name: str = "mlflow.db") -> str:
    """The URI of the store in a folder, which is empty at first."""
    if not (folder / name).exists():
        shutil.copy(empty(), folder / name)
    return f"sqlite:///{folder / name}"
