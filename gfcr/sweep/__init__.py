"""Studies: arms x seeds of one file, each trial a process of its own, resumable."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from gfcr import config as configs
from gfcr import experiment, factors
from gfcr.config import Experiment
from gfcr.errors import ConfigError
from gfcr.plain import mapping
from gfcr.tracking.folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One arm under one seed."""

    config: Experiment
    folder: Path
    updates: int

    @property
    def name(self) -> str:
        """`arm/seed`."""
        return f"{self.config.name}/{self.config.seed}"

    @property
    def run_id(self) -> str:
        """The run's id, which ends its folder's name."""
        return self.folder.name.rpartition("-")[2]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question: the same experiment under several arms and seeds."""

    name: str
    baseline: str
    trials: tuple[Trial, ...]
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Arm -> factor -> level; empty where the file names arms and not factors."""

    @property
    def arms(self) -> dict[str, list[Trial]]:
        """The trials of each arm, in the order of the file."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.config.name, []).append(trial)
        return found


@dataclass(frozen=True, kw_only=True)
class TrialEnd:
    """How one trial ended."""

    trial: Trial
    status: str
    """`finished`, `cached` (had finished before) or `failed`."""
    result: Mapping[str, Any]


def load(path: str | Path, *, overrides: Sequence[str]) -> Study:
    """Reads a study file: an experiment's keys, and `seeds`, `baseline`, and `arms` or `factors`.

    Every arm is resolved, so that a mistake in any of them is found before anything runs.

    Raises:
        ConfigError: no arms or seeds, an unknown baseline, or whatever an experiment may raise.
    """
    values = configs.merge(configs.read(path), configs.parse_overrides(overrides))
    return from_values({"study": Path(path).parent.name, **values}, where=str(path))


def from_values(values: Mapping[str, Any], *, where: str) -> Study:
    """Makes a study of what its file would hold, `base` already merged; errors as `load`."""
    shared = dict(values)
    arms, levels = _arms(shared, where=where)
    seeds = _seeds(shared.pop("seeds", (0,)), where=where)
    baseline = str(shared.get("baseline") or next(iter(arms)))
    if baseline not in arms:
        raise ConfigError(f"{where}: baseline={baseline!r} is no arm. Arms: {', '.join(arms)}.")
    shared["baseline"] = baseline
    # Seeds go outside: every arm has its first result before any has its second.
    trials = [
        _trial(shared, arm=arm, changes=changes or {}, seed=seed, where=where)
        for seed in seeds
        for arm, changes in arms.items()
    ]
    name = trials[0].config.study
    return Study(name=name, baseline=baseline, trials=tuple(trials), levels=levels)


def run(
    study: Study,
    *,
    fresh: bool = False,
    begin: Callable[[Trial], None] = lambda trial: None,
    watch: Callable[[Trial], None] = lambda trial: None,
) -> list[TrialEnd]:
    """Runs the trials that have not finished; a failed one does not stop the others."""
    return [_run(trial, fresh=fresh, begin=begin, watch=watch) for trial in study.trials]


def _arms(
    shared: dict[str, Any], *, where: str
) -> tuple[dict[str, Any], dict[str, Mapping[str, str]]]:
    """Takes `arms`, or `factors` and `design`, out of a study's values."""
    given, crossed = shared.pop("arms", None), shared.pop("factors", None)
    design = shared.pop("design", None)
    if crossed is None and design is not None:
        raise ConfigError(
            f"{where}: design={design!r} is for factors: give `factors`, or leave it."
        )
    if crossed is not None and given is not None:
        raise ConfigError(f"{where}: arms and factors are both given: leave one of them out.")
    if crossed is None:
        example = "{grpo: {strategy: grpo}, dapo: {strategy: dapo}}"
        named = mapping(given or None, where=f"{where}: arms", example=example)
        # YAML reads `4:` as a number.
        return {str(arm): changes for arm, changes in named.items()}, {}
    cells = factors.expand(crossed, design=design or "full", where=where)
    changes = {name: cell.changes for name, cell in cells.items()}
    return changes, {name: cell.levels for name, cell in cells.items()}


def _trial(shared: Mapping[str, Any], *, arm: str, changes: Any, seed: int, where: str) -> Trial:
    own = mapping(changes, where=f"{where}: arms.{arm}", example="{strategy: grpo}")
    values = configs.merge(shared, {**own, "arm": arm, "seed": seed})
    config = configs.experiment(values, where=f"{where}: arms.{arm}")
    resolved = experiment.resolve(config)
    return Trial(config=config, folder=resolved.folder, updates=resolved.trainer.max_steps)


def _run(
    trial: Trial,
    *,
    fresh: bool,
    begin: Callable[[Trial], None],
    watch: Callable[[Trial], None],
) -> TrialEnd:
    done = RunFolder(trial.folder).result()
    cached = not fresh and done is not None and done["status"] == "finished"
    begin(trial)
    trial.folder.mkdir(parents=True, exist_ok=True)
    file = trial.folder.parent / f"{trial.folder.name}.yaml"
    OmegaConf.save(OmegaConf.create(configs.as_dict(trial.config)), file)
    command = [sys.executable, "-m", "gfcr", "run", str(file), "--json"]
    command += ["--fresh"] if fresh else []
    # The trial's words go to a file: its metrics are what the caller shows.
    log = trial.folder.parent / f"{trial.folder.name}.log"
    with (
        log.open("a") as words,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=words, text=True) as process,
    ):
        try:
            while process.poll() is None:
                watch(trial)
                _wait(process)
        except BaseException:
            process.terminate()
            raise
        answer = process.stdout.read() if process.stdout else ""
    result = _answer(answer, log=log)
    status = "cached" if cached else str(result.get("status", "failed"))
    return TrialEnd(trial=trial, status=status, result=result)


def _seeds(given: Any, *, where: str) -> list[int]:
    seeds: list[Any] = list(given) if isinstance(given, (list, tuple, range)) else []  # pyright: ignore[reportUnknownArgumentType]
    if not seeds or not all(type(s) is int for s in seeds):
        raise ConfigError(f"{where}: seeds={given!r} is not allowed: give a list of integers.")
    return seeds


def _wait(process: "subprocess.Popen[str]") -> None:
    try:
        process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        return


def _answer(text: str, *, log: Path) -> dict[str, Any]:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        lines = log.read_text(errors="replace").splitlines()
        return {"status": "failed", "error": "\n".join(lines[-5:]), "log": str(log)}
