"""`gfcr upload`."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

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

    Certificates made since the runs are looked up first: an audit may follow the run it is about.
    """
    tracker = Mlflow(uri=options.uri)
    found = {(f, card.parent) for f in options.folders for card in f.rglob("run.json")}
    # A folder that was set aside holds a run that was started over: the store holds the newer one.
    runs = sorted({run for given, run in found if run == given or ".old-" not in run.name})
    if not runs:
        given = ", ".join(map(str, options.folders))
        near = near_file(options.folders[0])
        raise ConfigError(f"{given}: no run folder (one with a run.json) there.{near}")
    uploaded: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for folder in runs:
        try:
            with locked(folder):
                recertify(RunFolder(folder))
                uploaded[str(folder)] = tracker.upload(folder)
        except (FolderInUse, CheckpointError) as error:
            skipped[str(folder)] = str(error)
    pages = _reported({RunFolder(f).card().study for f in uploaded}, uri=tracker.uri)
    lines = [f"{folder} -> {run_id}" for folder, run_id in uploaded.items()]
    lines += [f"{study}: {page}" for study, page in pages.items()]
    lines += [f"not uploaded: {why}" for why in skipped.values()]
    data = {"uploaded": uploaded, "pages": pages, "skipped": skipped}
    return Outcome(data=data, text="\n".join(lines), code=1 if skipped else 0)


def _reported(studies: set[str], *, uri: str) -> dict[str, str]:
    """Stores each study's report with its runs; returns MLflow's page of each study."""
    from gfcr import leaderboard

    pages: dict[str, str] = {}
    for study in sorted(studies):
        board = leaderboard.build(uri, study=study)
        if board.rows:
            with TemporaryDirectory() as folder:
                pages[study] = keep(board, uri=uri, html=Path(folder) / "leaderboard.html")
    return pages
