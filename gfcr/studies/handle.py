"""A study as an object for notebooks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from rich.jupyter import JupyterMixin

from gfcr import config as configs
from gfcr import leaderboard, sweep
from gfcr.errors import ConfigError
from gfcr.leaderboard.rows import ArmSeed
from gfcr.leaderboard.screen import screen
from gfcr.planning import Assumed, StudyPlan, plan
from gfcr.shown.table import Column, Table
from gfcr.studies import attribution, effects, frames, opened, plots
from gfcr.studies.crossed import Crossed, crossed
from gfcr.sweep.multirun import applied
from gfcr.tracking.folder_store import find_folders, read_folders
from gfcr.tracking.names import HELDOUT
from gfcr.tracking.records import RunRecord
from gfcr.values import merging

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame  # pyright: ignore[reportMissingTypeStubs]

_WHERE = "gfcr.study(...)"
_REPLACED = ("arms", "factors", "seeds")


def study(
    source: opened.Source = None,
    *,
    overrides: Sequence[str] = (),
    **values: Any,
) -> "StudyHandle":
    """Opens a study; every arm is checked, nothing runs.

    Example:
        study = gfcr.study(base="experiments/quickstart/base.yaml", study="groups", seeds=[0, 1],
                           arms={"small": {"strategy": {"group_size": 4}}, "large": {}})
        study.run().plot()

    Args:
        source: a study's YAML file, or the values of one.
        overrides: `key=value` for every arm, or `key=a,b`, as on the command line.
        values: the file's keys, over those of `source`; `base` names a YAML file to start from.

    Raises:
        ConfigError: as `gfcr.sweep.load`.
    """
    where = str(source) if isinstance(source, str | Path) else _WHERE
    given = opened.read(source, where=where)
    if isinstance(source, str | Path):
        given = configs.called(given, by=source)
    replaced = {*values, *(["seeds"] if "seed" in values else [])}
    given = {k: v for k, v in given.items() if not (k in _REPLACED and k in replaced)}
    merged = merging.merge(given, opened.based(values))
    now = applied(merged, overrides, where=where)
    with opened.located(source, now=now):
        return StudyHandle(sweep.from_values(now, where=where))


_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("arm", lambda row: row["arm"], words=True),
    Column("seed", lambda row: row["seed"]),
    Column("status", lambda row: row["status"], words=True),
    Column("score before", lambda row: row["score_before"], ".3f"),
    Column("score", lambda row: row["score"], ".3f"),
    Column("updates", lambda row: row["updates"]),
    Column("seconds", lambda row: row["wall_s"], ",.0f"),
)


@final
@dataclass(frozen=True, repr=False)
class StudyHandle(JupyterMixin):
    """Plans, runs and reads one study. Results are read from the run folders, at any time."""

    study: sweep.Study

    def plan(
        self,
        *,
        effect: float | None = None,
        calibrated: bool = False,
        assumed: Assumed | None = None,
    ) -> StudyPlan:
        """Returns cost and detectable difference, see `gfcr.planning.plan`."""
        return plan(self.study, effect=effect, calibrated=calibrated, assumed=assumed)

    def run(
        self, *, arms: Sequence[str] = (), fresh: bool = False, accept_data: bool = False
    ) -> "StudyHandle":
        """Runs what has not finished, with progress; a failed trial does not stop the others.

        Args:
            arms: the arms to run; all of them by default.
            fresh: also run what has finished, again.
            accept_data: also resume what was left with other prompts, another model or other code.

        Raises:
            ConfigError: as `Study.only`.
        """
        study = self.study.only(arms) if arms else self.study
        ends = opened.run_shown(replace(study, accept_data=accept_data), fresh=fresh)
        opened.tell(f"{end.trial.name}: {end.problem}" for end in sweep.problems(ends))
        opened.tell(sweep.remarks(ends))
        return self

    def frame(self) -> "DataFrame":
        """Returns one row per run, see `frames.runs_frame`."""
        return frames.runs_frame(self._known)

    def metrics(self) -> list[str]:
        """Returns the names of the metrics that the runs have recorded, for `curves` and `plot`."""
        return frames.metric_names(self._known)

    def curves(self, *, metrics: Sequence[str] | None = None) -> "DataFrame":
        """Returns metrics over the course of the runs, see `frames.curves_frame`."""
        return frames.curves_frame(self._known, metrics=metrics)

    def rollouts(self, *, columns: Sequence[str] = frames.COLUMNS) -> "DataFrame":
        """Returns every rollout, see `frames.rollouts_frame`."""
        return frames.rollouts_frame(self._known, columns=columns)

    def leaderboard(
        self, *, margin: float | None = None, target: float | None = None
    ) -> leaderboard.Leaderboard:
        """Ranks the arms from the run folders, as `gfcr leaderboard` does from MLflow.

        Raises:
            ConfigError: no run of the study, or none of its baseline, has finished.
        """
        records, others = self._runs()
        return leaderboard.rank(
            records,
            others=others,
            baseline=leaderboard.baseline_of(records, planned=self.study.baseline),
            margin=margin,
            target=target,
            asked=[ArmSeed(arm=t.config.name, seed=t.config.seed) for t in self._known.trials],
        )

    def effects(self) -> "DataFrame":
        """Returns main effects and interactions of the study's factors, a row each, see `effects`.

        Raises:
            ConfigError: the study is not crossed, or an arm has no finished run.
        """
        return frames.effects_frame(effects.effects(self._crossed()))

    def anova(self) -> "DataFrame":
        """Returns each factor's and interaction's share of the variance of arms, with F tests.

        Raises:
            ConfigError: as `effects`.
        """
        return frames.anova_frame(attribution.anova(self._crossed()))

    def shapley(self, arm: str | None = None) -> "DataFrame":
        """Splits an arm's gain over the reference among its factors; the best arm's by default.

        Raises:
            ConfigError: as `effects`, or there is no such arm.
        """
        return frames.effects_frame(attribution.shapley(self._crossed(), arm=arm))

    def plot(
        self, metric: str = HELDOUT, *, by: str = "update", ax: "Axes | None" = None
    ) -> "Figure | Axes":
        """Draws learning curves and the token ledger, see `plots.draw`.

        With `ax`, only the curves against one budget are drawn there, see `plots.draw_curves`.

        Raises:
            ConfigError: there is no such metric.
        """
        curves = frames.curves_frame(self._known, metrics=(metric,))
        if ax is not None:
            baseline = self.study.baseline
            return plots.draw_curves(curves, metric=metric, baseline=baseline, by=by, ax=ax)
        # Before the baseline has a finished run there is no leaderboard, and curves there are.
        board = leaderboard.rank(self._runs()[0])
        return plots.draw(curves, board=board, baseline=self.study.baseline, metric=metric)

    @property
    def _known(self) -> sweep.Study:
        """The study with the arms that a search has made so far."""
        return sweep.unfolded(self.study)

    def _runs(self) -> tuple[list[RunRecord], list[RunRecord]]:
        """Returns the runs that the study asks for and the others of it, see `of_file`."""
        root, name = Path(self.study.trials[0].config.folder), self.study.name
        folders = [folder for folder in find_folders(root) if folder.parts[-3] == name]
        every = self._read(folders, series=leaderboard.SERIES)
        return leaderboard.of_file(every, runs={trial.run_id for trial in self._known.trials})

    def _crossed(self) -> Crossed:
        folders = [t.folder for t in self._known.trials if (t.folder / "run.json").exists()]
        arms = screen(self._read(folders), baseline=self.study.baseline)[0]
        return crossed(arms, levels=self.study.levels)

    def _read(self, folders: Sequence[Path], *, series: Sequence[str] = ()) -> list[RunRecord]:
        if not folders:
            raise ConfigError(f"study {self.study.name} has no runs yet: run it first.")
        return read_folders(folders, series=series)

    def __rich__(self) -> Table[dict[str, Any]]:
        return Table(rows=frames.run_rows(self._known), columns=_COLUMNS, title=repr(self))

    def __repr__(self) -> str:
        done = sum(trial.status == "finished" for trial in self.study.trials)
        return (
            f"study {self.study.name}: {', '.join(self.study.arms)}; "
            f"{done} of {len(self.study.trials)} runs finished"
        )
