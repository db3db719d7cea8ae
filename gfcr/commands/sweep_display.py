"""The live table of a sweep, read from the run folders that the trials write."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, final

from rich.console import Console
from rich.live import Live

from gfcr.commands.display import figures, is_drawn
from gfcr.config import HELDOUT, as_dict
from gfcr.errors import CheckpointError
from gfcr.shown.table import Column, Table
from gfcr.sweep import Study, Trial, TrialEnd
from gfcr.tracking.folder import MetricLine, RunFolder

_Row: TypeAlias = tuple[str, str, str, str]
_STYLES = {"running": "bold", "failed": "red", "waiting": "dim"}
_COLUMNS: tuple[Column[_Row], ...] = (
    Column("trial", lambda row: row[0], words=True),
    Column("status", lambda row: row[1], words=True),
    Column("progress", lambda row: row[2], words=True, wraps=True),
    Column("time", lambda row: row[3], words=True),
)


@final
class SweepDisplay:
    """One row per trial, refreshed twice a second; plain lines without a terminal.

    Args:
        study: the study whose trials run.
        show: takes the table whenever it changes, in place of the terminal (notebooks).
    """

    def __init__(self, study: Study, *, show: Callable[[Table[Any]], None] | None = None) -> None:
        self._show = show
        self._console = Console(stderr=True)
        self._rows: dict[str, tuple[str, str, str]] = {
            t.name: ("waiting", "", "") for t in study.trials
        }
        placed = study.launcher.share([as_dict(trial.config) for trial in study.trials])
        self._title = f"study {study.name}" + (f", {placed}" if placed else "")
        self._began: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._live = Live(self._table(), console=self._console, auto_refresh=False)
        self._terminal = show is None and is_drawn(self._console)

    def __enter__(self) -> "SweepDisplay":
        if self._terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._live.stop()

    def begin(self, trial: Trial) -> None:
        """Shows that a trial has started."""
        self._began[trial.name] = time.monotonic()
        # A search makes trials as it goes.
        self._rows.setdefault(trial.name, ("waiting", "", ""))
        self._set(trial, status="running", progress="starting")
        if not self._terminal and self._show is None:
            number = list(self._rows).index(trial.name) + 1
            self._console.print(
                f"trial {number}/{len(self._rows)}: {trial.name}", highlight=False, markup=False
            )

    def watch(self, trial: Trial) -> None:
        """Shows the trial's latest figures, which are read where the trial has logged more."""
        log = trial.folder / "metrics.jsonl"
        size = log.stat().st_size if log.is_file() else 0
        if size == self._sizes.get(trial.name):
            self._set(trial, status="running", progress=self._rows[trial.name][1])
            return
        self._sizes[trial.name] = size
        lines = list[MetricLine]()
        with suppress(CheckpointError):  # the trial's own process names what is damaged
            lines += RunFolder(trial.folder).metrics()
        updates = [line for line in lines if "rollouts/all" in line.metrics]
        scores = [line.metrics[HELDOUT] for line in lines if HELDOUT in line.metrics]
        if not updates:
            text = "evaluating" if scores else "starting"
        else:
            latest = scores[-1] if scores else None
            text = f"{updates[-1].step}/{trial.updates}  " + figures(
                updates[-1].metrics, heldout=latest
            )
        self._set(trial, status="running", progress=text)

    def close(self, ends: list[TrialEnd]) -> None:
        """Shows how the trials ended."""
        for end in ends:
            self._set(end.trial, status=end.status, progress=_ending(end.result))

    def _set(self, trial: Trial, *, status: str, progress: str) -> None:
        began = self._began.get(trial.name)
        known = self._rows.get(trial.name, ("", "", ""))[2]
        seconds = f"{time.monotonic() - began:.0f} s" if began and status == "running" else known
        self._rows[trial.name] = (status, progress, seconds)
        if self._terminal:
            self._live.update(self._table(), refresh=True)
        elif self._show is not None:
            self._show(self._table())

    def _table(self) -> Table[_Row]:
        return Table(
            rows=[(name, *row) for name, row in self._rows.items()],
            columns=_COLUMNS,
            title=self._title,
            style=lambda row: _STYLES.get(row[1], ""),
        )


def _ending(result: Mapping[str, Any]) -> str:
    if "heldout" not in result:
        return str(result.get("error", ""))[:80]
    before, after = (result["heldout"][k]["accuracy"] for k in ("before", "after"))
    return f"held-out {before:.3f} -> {after:.3f}"
