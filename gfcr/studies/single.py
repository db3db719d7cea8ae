"""One run as an object for notebooks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from rich.jupyter import JupyterMixin

from gfcr import config as configs
from gfcr import sweep
from gfcr.errors import GfcrError
from gfcr.shown.table import Column, Table
from gfcr.studies import frames, opened, plots
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import HELDOUT
from gfcr.values import merging
from gfcr.values.overrides import apply_overrides

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame  # pyright: ignore[reportMissingTypeStubs]

_WHERE = "gfcr.run(...)"


def run(
    source: opened.Source = None,
    *,
    overrides: Sequence[str] = (),
    fresh: bool = False,
    accept_data: bool = False,
    **values: Any,
) -> "RunHandle":
    """Runs an experiment to its end, as `gfcr run` does, and returns a handle on its results.

    It runs in a process of its own: the caller's libraries, threads and memory do not matter, an
    interrupt acts as on the command line, and a finished run is read and not made again.

    Example:
        one = gfcr.run(base="experiments/quickstart/base.yaml", strategy="dapo", seed=1)
        one.plot()

    Args:
        source: an experiment's YAML file, or the values of one.
        overrides: `key=value`, as on the command line.
        fresh: whether to start over, keeping the old folder.
        accept_data: whether to resume although prompts, the model or your own code have changed.
        values: the file's keys, over those of `source`; `base` names a YAML file to start from.

    Raises:
        ConfigError: as `gfcr.config.load`.
        GfcrError: it failed, was paused or has no score; the same call resumes it.
        KeyboardInterrupt: it was interrupted; the same call resumes it.
    """
    where = str(source) if isinstance(source, str | Path) else _WHERE
    merged = merging.merge(opened.read(source, where=where), opened.based(values))
    given = apply_overrides(merged, overrides)
    with opened.located(source, now=given):
        trial = sweep.trial_of(configs.experiment(given, where=where))
    name = trial.config.name
    study = trial.config.study
    alone = sweep.Study(name=study, baseline=name, trials=(trial,), accept_data=accept_data)
    (end,) = opened.run_shown(alone, fresh=fresh)
    if end.problem is not None:
        raise GfcrError(f"run {trial.name} failed: {end.problem} Its folder: {trial.folder}")
    opened.tell(sweep.remarks([end]))
    return RunHandle(alone)


@final
@dataclass(frozen=True, repr=False)
class RunHandle(JupyterMixin):
    """Reads one run from its folder."""

    _alone: sweep.Study
    """The run as a study of one trial."""

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._alone.trials[0].folder

    @property
    def result(self) -> Mapping[str, Any]:
        """The contents of `result.json`."""
        return RunFolder(self.folder).result() or {}

    @property
    def score(self) -> float:
        """The held-out score after training."""
        return self.result["heldout"]["after"]["accuracy"]

    def frame(self) -> "DataFrame":
        """Returns one row, see `frames.runs_frame`."""
        return frames.runs_frame(self._alone)

    def curves(self, *, metrics: Sequence[str] | None = None) -> "DataFrame":
        """Returns metrics over the course of the run, see `frames.curves_frame`."""
        return frames.curves_frame(self._alone, metrics=metrics)

    def rollouts(self, *, columns: Sequence[str] = frames.COLUMNS) -> "DataFrame":
        """Returns every rollout, see `frames.rollouts_frame`."""
        return frames.rollouts_frame(self._alone, columns=columns)

    def plot(self, metric: str = HELDOUT, *, by: str = "update", ax: Any = None) -> "Axes":
        """Draws a metric's curve, see `plots.draw_curves`; a new figure's axes without `ax`."""
        curves = self.curves(metrics=(metric,))
        return plots.draw_curves(curves, metric=metric, baseline=None, by=by, ax=ax)

    def __rich__(self) -> Table[tuple[str, Any]]:
        start = self.result["heldout"]["before"]["accuracy"]
        rows = [
            ("held-out score", f"{start:.3f} -> {self.score:.3f}"),
            ("updates", self.result["updates"]),
            ("seconds", f"{self.result['wall_s']:.0f}"),
            *((f"tokens, {name}", f"{n:,}") for name, n in self.result["tokens"].items()),
            ("folder", str(self.folder)),
        ]
        columns: list[Column[tuple[str, Any]]] = [
            Column("", lambda row: row[0], words=True),
            Column("", lambda row: row[1], words=True, wraps=True),
        ]
        return Table(rows=rows, columns=columns, title=f"run {self._alone.trials[0].name}")

    def __repr__(self) -> str:
        trial = self._alone.trials[0]
        return (
            f"run {trial.name} of study {self._alone.name}: held-out score {self.score:.3f} after "
            f"{self.result['updates']} updates"
        )
