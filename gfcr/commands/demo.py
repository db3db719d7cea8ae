"""`gfcr demo`."""

import argparse
from pathlib import Path

from gfcr import sweep
from gfcr.commands import Outcome
from gfcr.commands.leaderboard import seats_of
from gfcr.commands.sweep import data_of, run_study
from gfcr.errors import ConfigError

HELP = "Run the quickstart study and show its leaderboard, report and MLflow store."

STUDY = Path("experiments/quickstart/study.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm")
    parser.add_argument("--fresh", action="store_true", help="run finished trials again")


def run(options: argparse.Namespace) -> Outcome:
    from gfcr import leaderboard, models
    from gfcr.leaderboard import report

    if not STUDY.is_file():
        raise ConfigError(f"{STUDY} is not here: run `gfcr demo` in a checkout of gfcr.")
    study = sweep.load(STUDY, overrides=options.overrides)
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
