"""`gfcr bench steps`."""

import argparse

from benchmarks.commands import planned, say
from gfcr.commands import ENGINE, Outcome, to_write, within
from gfcr.values.ranges import Count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", help=ENGINE)
    parser.add_argument("--model", default="demo", help="demo model, folder or Hub id")
    parser.add_argument("--repeats", type=within(Count), default=3, help="of each batch")
    parser.add_argument(
        "--write", type=to_write, metavar="FILE.json", help="keep the cost, for `read_cost`"
    )


def run(options: argparse.Namespace) -> Outcome:
    """Measures, and keeps what was measured where it is asked for."""
    from benchmarks import steps

    found = steps.measure(planned(steps.Plan, options), say=say)
    if options.write is not None:
        steps.write(found, path=options.write)
    return Outcome(data=found.data(), text=found.text())
