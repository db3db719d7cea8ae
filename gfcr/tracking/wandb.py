"""Weights & Biases as a mirror of run folders."""

import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, final

from gfcr.code import optional
from gfcr.errors import GfcrError
from gfcr.tracking.base import RunCard, Tracker
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import digest
from gfcr.values.ranges import Word

_PATIENCE_S = 30.0
"""Seconds that a server may take to answer when a run begins."""


@final
@dataclass(kw_only=True)
class Wandb(Tracker):
    """Mirrors each run to Weights & Biases: `grpo / seed 0` in the group `study / arm`.

    Offline, everything is in the run folder's `wandb/`, for `wandb sync`, written again from the
    run folder when a run goes on. Online, wandb takes each update once: of those that are made
    again after a kill it keeps the first values. The leaderboard reads MLflow: `gfcr upload runs/`
    brings the same runs there.
    """

    libraries: ClassVar[tuple[str, ...]] = ("wandb",)
    project: Word = "gfcr"
    entity: Word | None = None
    """The team or user; None takes the account's own."""
    mode: Literal["online", "offline"] = "online"

    def __post_init__(self) -> None:
        self._run: Any = None
        self._folder: Path | None = None

    def start(self, card: RunCard, *, folder: Path) -> None:
        """Opens or resumes the run, and brings it up to date with the folder's metrics.

        Raises:
            ConfigError: wandb is not installed.
        """
        self._folder = folder
        with self._told():
            self._run = self._open(RunFolder(folder), card=card)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds one line of metrics, which wandb sends in the background."""
        if self._run is not None:
            with self._told():
                self._run.log(dict(metrics), step=step)

    def finish(self, *, status: str, result: Mapping[str, object]) -> None:
        if self._run is not None:
            with self._told():
                shown = {k: v for k, v in result.items() if isinstance(v, int | float | str)}
                self._run.summary.update({"status": status, **shown})
                self._run.finish(exit_code=int(status == "failed"))
            self._run = None

    def _open(self, folder: RunFolder, *, card: RunCard) -> Any:
        wandb = optional.load("wandb")
        run_id = f"{card.run_id}-{digest(folder.attempt)[:8]}"
        if self.mode == "offline":
            for earlier in folder.path.glob(f"wandb/offline-run-*-{run_id}"):
                shutil.rmtree(earlier)
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            mode=self.mode,
            id=run_id,
            resume="allow",
            name=f"{card.arm} / seed {card.seed}",
            group=f"{card.study} / {card.arm}",
            job_type=card.study,
            config={**card.spec, "gfcr": dict(card.tags)},
            dir=str(folder.path),
            # Its words would stand between those of a run, or in its JSON.
            settings=wandb.Settings(console="off", silent=True, init_timeout=_PATIENCE_S),
        )
        for line in folder.metrics():
            if line.step >= run.step:  # it has the others
                run.log(dict(line.metrics), step=line.step)
        return run

    @contextmanager
    def _told(self) -> Generator[None]:
        """Gives wandb up where it fails, and says so."""
        try:
            yield
        except GfcrError:
            raise
        except Exception as error:
            self._run = None
            print(
                f"gfcr: wandb is not taking records ({type(error).__name__}: {error}). The run "
                f"goes on and keeps everything in {self._folder}.",
                file=sys.stderr,
            )
