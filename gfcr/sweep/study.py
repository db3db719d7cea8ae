"""The data of a study: trials, arms and seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gfcr.config import Experiment
from gfcr.errors import ConfigError, unknown_name
from gfcr.launch.base import Launcher
from gfcr.launch.local import Local
from gfcr.search.base import Length, StoppingRule
from gfcr.search.space import Search
from gfcr.tracking.folder_store import result_at


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One arm under one seed."""

    config: Experiment
    folder: Path
    updates: int

    @property
    def name(self) -> str:
        """The trial's name, `arm/seed`."""
        return f"{self.config.name}/{self.config.seed}"

    @property
    def run_id(self) -> str:
        """The run's id, with which its folder's name ends."""
        return self.folder.name.rpartition("-")[2]

    @property
    def status(self) -> str:
        """Returns the status of its run's result; empty where it has none."""
        return str(result_at(self.folder).get("status", ""))


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The arms that a search makes as it goes."""

    spec: Search
    make: Callable[[str, Mapping[str, Any]], Sequence[Trial]] = field(compare=False)
    """Makes the trials of an arm from its name and its values for the keys of the space."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: the same experiment under several arms and seeds.

    Studies are equal that ask the same; where their trials run is no part of the question.
    """

    name: str
    baseline: str
    trials: tuple[Trial, ...]
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """The levels of each arm by factor; empty where the file names arms and not factors."""
    stopping: StoppingRule | None = None
    """The rule that stops arms early; None runs all of them to their end."""
    launcher: Launcher = field(default_factory=Local, compare=False)
    search: Candidates | None = None
    """The search that chooses arms beside the baseline, which is then the only one in `trials`."""
    accept_data: bool = field(default=False, compare=False)
    """Whether trials resume although prompts, the model or code of the user's own have changed."""

    @property
    def arms(self) -> dict[str, list[Trial]]:
        """The trials of each arm, in the order of the file."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.config.name, []).append(trial)
        return found

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order of the file."""
        return list(dict.fromkeys(trial.config.seed for trial in self.trials))

    @property
    def metric(self) -> str:
        """The metric that the study's stopping rule reads."""
        return self.trials[0].config.metric

    @property
    def minimum_effect(self) -> float | None:
        """The smallest difference of the metric that matters; None where the file gives none."""
        return self.trials[0].config.minimum_effect

    @property
    def length(self) -> Length:
        """The bounds on the length of each run."""
        first = self.trials[0]
        return Length(
            updates=first.updates,
            generated_tokens=first.config.budget.generated_tokens,
            every=first.config.evaluation.every,
        )

    def only(self, arms: Sequence[str]) -> "Study":
        """Returns the same study with only some of its arms.

        Raises:
            ConfigError: there is no such arm, or a stopping rule or a search decides what runs.
        """
        for arm in arms:
            if arm not in self.arms:
                raise unknown_name(arm, kind="arm", allowed=self.arms, where=f"study {self.name}")
        chosen = f"arms {', '.join(arms)} of study {self.name} cannot be run alone:"
        if self.search is not None:
            raise ConfigError(f"{chosen} its `search` makes the arms as it goes. Run all of it.")
        if self.stopping is not None:
            raise ConfigError(
                f"{chosen} its `stopping` compares all arms to decide which go on. Run all of "
                "them, or give stopping=null."
            )
        return replace(self, trials=tuple(t for t in self.trials if t.config.name in arms))

    @property
    def store(self) -> str:
        """The URI of the MLflow store that the study names, or of the default one."""
        return str(self.trials[0].config.tracking.get("uri", "sqlite:///mlflow.db"))

    @property
    def folder(self) -> Path:
        """The folder that holds the folders of its arms."""
        config = self.trials[0].config
        return Path(config.folder) / config.study


@dataclass(frozen=True, kw_only=True)
class TrialEnd:
    """The end of one trial: its status, result and problem."""

    trial: Trial
    status: str
    """`finished`, `cached` (had finished before), `stopped` (by the stopping rule) or `failed`."""
    result: Mapping[str, Any]
    problem: str | None = None
    """Why the trial cannot be compared although it finished, or why it failed or was stopped."""
