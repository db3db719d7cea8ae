"""`gfcr bench time-to-target`."""

import argparse
from pathlib import Path
from typing import Any

from benchmarks.commands import say
from gfcr.commands import Outcome, within
from gfcr.values.ranges import SomeShare

STUDY = Path("experiments/time_to_target/study.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "study", nargs="?", default=str(STUDY), help=f"path of a study's YAML file ({STUDY})"
    )
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm")
    parser.add_argument(
        "--target", type=within(SomeShare), default=0.65, help="held-out reward to come to"
    )


def run(options: argparse.Namespace) -> Outcome:
    """Measures; exit code 1 when a run failed or an arm never came to the target."""
    from benchmarks import time_report, time_to_target
    from gfcr import sweep

    study = sweep.load(options.study, overrides=options.overrides)
    measured = time_to_target.measure(
        study, target=options.target, say=lambda line: say(f"running {line}")
    )
    data: dict[str, Any] = time_report.data(measured, study=study, target=options.target)
    good = all(arm["reached"] == arm["runs"] for arm in data["arms"])
    return Outcome(data=data, text=time_report.text(data), code=0 if good else 1)
