"""`gfcr upload`."""

import argparse
from pathlib import Path

from gfcr import registry
from gfcr.audit.certify import recertify
from gfcr.commands import Outcome
from gfcr.errors import ConfigError
from gfcr.tracking.base import Tracker
from gfcr.tracking.folder import RunFolder

HELP = "Bring a tracking store up to date with run folders, after an outage."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("folders", nargs="+", type=Path, help="run folders, or folders of them")
    parser.add_argument("--uri", help="MLflow tracking URI; sqlite:///mlflow.db by default")


def run(options: argparse.Namespace) -> Outcome:
    """Uploads every run found; doing it twice changes nothing.

    Certificates made since are looked up first: an audit may follow the run it speaks for.
    """
    tracker: Tracker = registry.build(
        "tracking", {"name": "mlflow", **({"uri": options.uri} if options.uri else {})}
    )
    runs = sorted({card.parent for f in options.folders for card in f.rglob("run.json")})
    if not runs:
        given = ", ".join(map(str, options.folders))
        raise ConfigError(f"{given}: no run folder (one with a run.json) there.")
    for folder in runs:
        recertify(RunFolder(folder))
    uploaded = {str(folder): tracker.upload(folder) for folder in runs}
    text = "\n".join(f"{folder} -> {run_id}" for folder, run_id in uploaded.items())
    return Outcome(data={"uploaded": uploaded}, text=text)
