"""No tracking store: the run folder is the only record."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from gfcr.tracking.base import RunCard, Tracker


@final
@dataclass(kw_only=True)
class Local(Tracker):
    """Keeps records in the run folder only; `Mlflow.upload` can mirror them at any later time."""

    def start(self, card: RunCard, *, folder: Path) -> None:
        """Does nothing: the folder is already the record."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Does nothing: the folder is already the record."""

    def finish(self, *, status: str, result: Mapping[str, object]) -> None:
        """Does nothing: the folder is already the record."""
