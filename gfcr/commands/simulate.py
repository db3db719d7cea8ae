"""`gfcr simulate`: comes with a checkout, as the benchmarks do whose figures it explains."""

import argparse

from gfcr.commands import Outcome, bench


def add_arguments(parser: argparse.ArgumentParser) -> None:
    bench.hand_over(parser, to="simulate")


def run(options: argparse.Namespace) -> Outcome:
    return bench.answer(options, by="simulate")
