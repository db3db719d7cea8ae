"""`gfcr bench updates`."""

import argparse

from gfcr.commands import Outcome, within
from gfcr.values.ranges import Count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="path of a YAML file")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE")
    parser.add_argument(
        "--updates", type=within(Count), default=5, help="updates after one that warms up"
    )


def run(options: argparse.Namespace) -> Outcome:
    from benchmarks import updates
    from gfcr import config

    loaded = config.read_experiment(options.experiment, overrides=options.overrides)
    found = updates.measure(loaded, updates=options.updates)
    return Outcome(data=found, text=updates.text(found))
