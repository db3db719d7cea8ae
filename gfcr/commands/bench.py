"""`gfcr bench`."""

import argparse

from gfcr.commands import Outcome

HELP = "Measure gfcr on this machine, side by side with what it is compared to."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("what", choices=["overhead"], help="what to measure")
    parser.add_argument("--model", default="demo", help="demo model, folder or Hub id")
    parser.add_argument("--pairs", type=int, default=7, help="alternating pairs, at least 5")
    parser.add_argument("--requests", type=int, default=256, help="requests a run")
    parser.add_argument("--max-tokens", type=int, default=96, help="tokens a request")


def run(options: argparse.Namespace) -> Outcome:
    """Runs the benchmark."""
    from gfcr.bench import overhead

    report = overhead.measure(
        model=options.model,
        pairs=options.pairs,
        requests=options.requests,
        max_tokens=options.max_tokens,
    )
    return Outcome(data=report.data, text=report.text)
