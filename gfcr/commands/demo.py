"""`gfcr demo`."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from rich.markup import escape

from gfcr import sweep
from gfcr.commands import Outcome
from gfcr.commands.reported import report_study
from gfcr.commands.sweep import data_of, run_study

_STUDY = "experiments/quickstart/study.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm")
    parser.add_argument("--fresh", action="store_true", help="run finished trials again")


def study_file() -> Path:
    """Returns the quickstart's study file: that of the current checkout, or the installed one."""
    here = Path(_STUDY)
    # Not by `importlib.resources.files`, which fails on an editable folder without code.
    installed = find_spec("gfcr_quickstart")
    folders = map(Path, (installed and installed.submodule_search_locations) or ())
    found = (file for file in (here, *(folder / here.name for folder in folders)) if file.is_file())
    return next(found, here)


def run(options: argparse.Namespace) -> Outcome:
    from gfcr import leaderboard, models

    study = sweep.load(study_file(), overrides=options.overrides)
    models.resolve(study.trials[0].config.model)
    ends = run_study(study, fresh=options.fresh)
    board, words = report_study(study)
    failed = [e for e in ends if e.status == "failed"]
    errors = [f"[red]{e.trial.name} failed[/]: {escape(str(e.problem))}" for e in failed]
    data = {**data_of(study, ends=ends), "leaderboard": leaderboard.to_dict(board)}
    return Outcome(
        data=data,
        text=[leaderboard.to_rich(board), *errors, f"\n{words}"],
        code=1 if failed else 0,
    )
