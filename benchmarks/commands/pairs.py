"""`gfcr bench overhead` and `gfcr bench server`."""

import argparse

from benchmarks.commands import planned
from gfcr.commands import ENGINE, Outcome, within
from gfcr.values.ranges import Count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser, pairs=7, max_tokens=96)
    parser.add_argument("--requests", type=within(Count), default=256, help="requests a run")


def add_common(parser: argparse.ArgumentParser, *, pairs: int, max_tokens: int) -> None:
    """Adds the options of every benchmark that alternates between two sides."""
    parser.add_argument("overrides", nargs="*", help=ENGINE)
    parser.add_argument("--model", default="demo", help="demo model, folder or Hub id")
    parser.add_argument(
        "--pairs", type=within(Count), default=pairs, help="alternating pairs, at least 5"
    )
    parser.add_argument(
        "--max-tokens", type=within(Count), default=max_tokens, help="tokens a request"
    )


def run(options: argparse.Namespace) -> Outcome:
    from benchmarks import overhead, server
    from benchmarks.pairs import Plan

    bench = overhead if options.what == "overhead" else server
    found = bench.measure(planned(Plan, options))
    return Outcome(data=found, text=bench.text(found))
