"""`gfcr bench jigsaw`."""

import argparse
from pathlib import Path

from benchmarks.commands import check_plot, say
from gfcr.commands import Outcome, to_write

STUDY = Path("experiments/jigsaw/study.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "study", nargs="?", default=str(STUDY), help=f"path of a study's YAML file ({STUDY})"
    )
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm")
    parser.add_argument(
        "--table", type=to_write, metavar="FILE", help="write the slowdowns for `launcher.table`"
    )
    parser.add_argument("--plot", type=to_write, metavar="FILE.png", help="draw who ran what when")


def run(options: argparse.Namespace) -> Outcome:
    """Measures; a trial that fails is an error."""
    from benchmarks.jigsaw import measure, report
    from gfcr import sweep

    plot = check_plot(options)
    study = sweep.load(options.study, overrides=options.overrides)
    slowdown, rounds = measure.measure(study, say=say, table=options.table)
    data = report.data(slowdown, rounds)
    if plot is not None:
        report.draw(rounds, path=plot)
    return Outcome(data=data, text=report.table(data))
