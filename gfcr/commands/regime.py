"""`gfcr regime`: comes with a checkout, as the regimes do."""

import argparse

from gfcr.commands import Outcome, bench


def add_arguments(parser: argparse.ArgumentParser) -> None:
    bench.hand_over(parser, to="regime")


def run(options: argparse.Namespace) -> Outcome:
    return bench.answer(options, by="regime")
