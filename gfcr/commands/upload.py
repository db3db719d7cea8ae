"""`gfcr upload`."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.markup import escape

from gfcr import config, registry
from gfcr.certificate.certify import recertify
from gfcr.commands import Outcome
from gfcr.commands.reported import keep
from gfcr.errors import CheckpointError, ConfigError, FolderInUse, near_file
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import locked
from gfcr.tracking.mlflow import Mlflow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", type=Path, help="run folders, or folders of them")
    parser.add_argument("--uri", default=Mlflow.uri, help="MLflow tracking URI")


def run(options: argparse.Namespace) -> Outcome:
    """Uploads every run found; repeating it changes nothing. Runs in progress are skipped.

    What a run's experiment says of MLflow's experiment and artifacts holds for its upload, too.
    Certificates made since the runs are looked up first: an audit may follow the run it is about.
    """
    found = {(f, card.parent) for f in options.folders for card in f.rglob("run.json")}
    # A folder that was set aside holds a run that was started over: the store holds the newer one.
    runs = sorted({run for given, run in found if run == given or ".old-" not in run.name})
    if not runs:
        given = ", ".join(map(str, options.folders))
        near = near_file(options.folders[0])
        raise ConfigError(f"{given}: no run folder (one with a run.json) there.{near}")
    uploaded: dict[str, str] = {}
    experiments: dict[str, str | None] = {}
    skipped: dict[str, str] = {}
    for folder in runs:
        try:
            with locked(folder):
                recertify(RunFolder(folder))
                tracker = replace(_tracked(folder), uri=options.uri)
                uploaded[str(folder)] = tracker.upload(folder)
                experiments[RunFolder(folder).card().study] = tracker.experiment
        except (FolderInUse, CheckpointError) as error:
            skipped[str(folder)] = str(error)
    pages = _reported(experiments, uri=options.uri)
    lines = [f"{folder} -> {run_id}" for folder, run_id in uploaded.items()]
    lines += [f"{study}: {page}" for study, page in pages.items()]
    lines += [f"not uploaded: {why}" for why in skipped.values()]
    data = {"uploaded": uploaded, "pages": pages, "skipped": skipped}
    return Outcome(data=data, text=escape("\n".join(lines)), code=1 if skipped else 0)


def _tracked(folder: Path) -> Mlflow:
    """Returns the tracker that a run's experiment names, where it is MLflow, else the usual one."""
    if not (file := folder / config.CONFIG).is_file():  # as of a script of TRL's
        return Mlflow()
    try:
        told = config.read_experiment(file).tracking
        named = told["name"] == "mlflow"
        return registry.build("tracking", told, where="tracking") if named else Mlflow()
    except ConfigError as error:  # of another version, or with variables of another machine
        print(f"gfcr: {folder} goes to the usual experiment of MLflow: {error}", file=sys.stderr)
        return Mlflow()


def _reported(experiments: Mapping[str, str | None], *, uri: str) -> dict[str, str]:
    """Stores each study's report with its runs; returns MLflow's page of each that has one."""
    from gfcr import leaderboard

    pages: dict[str, str] = {}
    for study, experiment in sorted(experiments.items()):
        try:
            board = leaderboard.build(uri, study=study)
        except ConfigError as error:  # as of an arm alone, whose baseline is not there yet
            print(f"gfcr: {study} has no leaderboard: {error}", file=sys.stderr)
            continue
        if board.rows:
            with TemporaryDirectory() as folder:
                pages[study] = keep(
                    board, uri=uri, experiment=experiment, html=Path(folder) / "leaderboard.html"
                )
    return pages
