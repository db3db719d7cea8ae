"""`gfcr demo`."""

import argparse
from importlib.resources import files
from pathlib import Path

from gfcr import sweep
from gfcr.commands import Outcome
from gfcr.commands.leaderboard import seats_of
from gfcr.commands.sweep import data_of, run_study

HELP = "Run the quickstart study and show its leaderboard, report and MLflow store."

_STUDY = "experiments/quickstart/study.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm")
    parser.add_argument("--fresh", action="store_true", help="run finished trials again")


def study_file() -> Path:
    """The quickstart's study: a checkout's, where the command is given in one, or the installed."""
    here = Path(_STUDY)
    return here if here.is_file() else Path(str(files("gfcr_quickstart") / here.name))


def run(options: argparse.Namespace) -> Outcome:
    from gfcr import leaderboard, models
    from gfcr.leaderboard import report

    study = sweep.load(study_file(), overrides=options.overrides)
    models.resolve(study.trials[0].config.model)
    ends = run_study(study, fresh=options.fresh)
    first = study.trials[0].config
    uri = str(first.tracking.get("uri", "sqlite:///mlflow.db"))
    seats = seats_of(study)
    board = leaderboard.build(uri, study=study.name, baseline=study.baseline, asked=seats)
    html = Path(first.folder) / study.name / "leaderboard.html"
    report.write(board, path=html)
    words = (
        f"\nHTML report: {html}\nMLflow store: {uri}; open it with: "
        f"mlflow ui --backend-store-uri {uri}"
    )
    failed = [e for e in ends if e.status == "failed"]
    errors = [f"[red]{e.trial.name} failed[/]: {e.result.get('error')}" for e in failed]
    data = {
        **data_of(study, ends=ends),
        "leaderboard": leaderboard.to_dict(board),
        "html": str(html),
        "mlflow": uri,
    }
    return Outcome(
        data=data,
        text=[leaderboard.to_rich(board), *errors, words],
        code=1 if failed else 0,
    )
