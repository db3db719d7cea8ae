"""`gfcr upload`."""

import argparse
from pathlib import Path

from gfcr import registry
from gfcr.certificate.certify import recertify
from gfcr.commands import Outcome
from gfcr.errors import CheckpointError, ConfigError, FolderInUse
from gfcr.tracking.base import Tracker
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.lock import locked

HELP = "Bring a tracking store up to date with run folders, after an outage."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", type=Path, help="run folders, or folders of them")
    parser.add_argument("--uri", help="MLflow tracking URI; sqlite:///mlflow.db by default")


def run(options: argparse.Namespace) -> Outcome:
    """Uploads every run found; doing it twice changes nothing. Runs that are running are skipped.

    Certificates made since are looked up first: an audit may follow the run it speaks for.
    """
    tracker: Tracker = registry.build(
        "tracking", {"name": "mlflow", **({"uri": options.uri} if options.uri else {})}
    )
    found = {(f, card.parent) for f in options.folders for card in f.rglob("run.json")}
    # Attempts that were set aside are told of by those that came after them.
    runs = sorted({run for given, run in found if run == given or ".old-" not in run.name})
    if not runs:
        given = ", ".join(map(str, options.folders))
        raise ConfigError(f"{given}: no run folder (one with a run.json) there.")
    uploaded: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for folder in runs:
        try:
            with locked(folder):
                recertify(RunFolder(folder))
                uploaded[str(folder)] = tracker.upload(folder)
        except (FolderInUse, CheckpointError) as error:
            skipped[str(folder)] = str(error)
    lines = [f"{folder} -> {run_id}" for folder, run_id in uploaded.items()]
    lines += [f"not uploaded: {why}" for why in skipped.values()]
    data = {"uploaded": uploaded, "skipped": skipped}
    return Outcome(data=data, text="\n".join(lines), code=1 if skipped else 0)
