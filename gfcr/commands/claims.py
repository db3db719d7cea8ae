"""`gfcr claims`: comes with a checkout, as the regimes do in which claims are tested."""

import argparse

from gfcr.commands import Outcome, bench


def add_arguments(parser: argparse.ArgumentParser) -> None:
    bench.hand_over(parser, to="claims")


def run(options: argparse.Namespace) -> Outcome:
    return bench.answer(options, by="claims")
