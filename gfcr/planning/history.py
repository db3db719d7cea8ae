"""Finds earlier runs from which the cost of planned ones can be estimated."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from gfcr import experiment, sweep
from gfcr.tracking.folder_store import find_folders, read_folders
from gfcr.tracking.names import flatten
from gfcr.tracking.records import RunRecord

Family: TypeAlias = frozenset[tuple[str, str]]
"""The flattened keys of a spec with their values, as far as they decide the cost."""

_PROBE_PROMPTS, _PROBE_UPDATES = 16, 2
_KEPT = ("model", "prompts", "task.", "strategy.", "engine.", "trainer.", "schedule.", "sampling.")
_ANSWERS = ("evaluation.sampling.", "evaluation.generate.")
_SAVED = ("max_steps", "save_every", "keep_checkpoints", "keep_optimizer")
"""Keys of a trainer that say how long it goes on, and what is kept of it."""


def family(params: Mapping[str, str]) -> Family:
    """Returns what decides the cost of an update and a held-out answer.

    How many there are, the seeds, and when checkpoints are written do not.
    """
    return frozenset(
        (key, value)
        for key, value in params.items()
        if key.startswith((*_KEPT, *_ANSWERS)) and key not in {f"trainer.{name}" for name in _SAVED}
    )


def family_of(trial: sweep.Trial) -> Family:
    """Returns the family of a planned trial."""
    return family(flatten(experiment.resolve(trial.config).spec))


def read_history(study: sweep.Study) -> list[RunRecord]:
    """Reads the run folders beside the study's and, if they lack an arm, its MLflow store."""
    config = study.trials[0].config
    records = read_folders(find_folders(config.folder))
    known = {family(r.params) for r in records if r.status == "finished"}
    arms = [trials[0] for trials in study.arms.values()]
    if all(family_of(trial) in known for trial in arms) or config.tracking["name"] != "mlflow":
        return records
    seen = {r.run_id for r in records}
    return records + [r for r in _stored(study) if r.run_id not in seen]


def calibrate(study: sweep.Study, *, known: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs two updates of each arm that has no finished run like it, and reads them.

    The runs are made on this machine, whatever the study's launcher, and leave nothing behind. A
    search is not begun: its candidates are taken to cost what its base does.
    """
    told = {family(r.params) for r in known if r.status == "finished"}
    arms = [t[0] for t in study.arms.values() if family_of(t[0]) not in told]
    with tempfile.TemporaryDirectory() as folder:
        trials = tuple(_probe(trial, folder=folder) for trial in arms)
        ends = sweep.run(sweep.Study(name=study.name, baseline=study.baseline, trials=trials))
        for end in sweep.problems(ends):
            print(f"gfcr: calibrating {end.trial.name} failed: {end.problem}", file=sys.stderr)
        return read_folders(find_folders(folder))


def _probe(trial: sweep.Trial, *, folder: str) -> sweep.Trial:
    config = trial.config
    prompts = min(config.evaluation.prompts, _PROBE_PROMPTS)
    short = replace(
        config,
        folder=folder,
        tracking={"name": "local"},
        trainer={**config.trainer, "max_steps": _PROBE_UPDATES},
        evaluation=replace(config.evaluation, prompts=prompts, every=0),
    )
    return sweep.Trial(
        config=short, folder=experiment.resolve(short).folder, updates=_PROBE_UPDATES
    )


def _stored(study: sweep.Study) -> list[RunRecord]:
    from gfcr.tracking.mlflow_client import sqlite_file
    from gfcr.tracking.mlflow_store import read_runs

    file = sqlite_file(study.store)
    return [] if file is not None and not file.exists() else read_runs(study.store)
