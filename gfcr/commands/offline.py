"""`gfcr offline`."""

import argparse
from pathlib import Path

from gfcr import strategy as strategies
from gfcr.commands import Outcome, spoken, within
from gfcr.values.ranges import Count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder with rollouts")
    parser.add_argument(
        "--strategy",
        action="append",
        required=True,
        metavar="'NAME KEY=VALUE ...'",
        help="a strategy and its knobs, e.g. 'dapo group_size=4'; the first is the reference",
    )
    parser.add_argument(
        "--prompts", type=within(Count), help="groups that fill a batch; the run's own"
    )


def run(options: argparse.Namespace) -> Outcome:
    """Evaluates the strategies; exit code 1 when the log cannot answer for one of them."""
    from gfcr import offline

    asked = {text: spoken(text, flag="--strategy") for text in options.strategy}
    named = {text: strategies.load(knobs.pop("name"), **knobs) for text, knobs in asked.items()}
    report = offline.evaluate(
        offline.read_log(options.run), strategies=named, prompts=options.prompts
    )
    refused = any(s.refused is not None for s in report.selections)
    return Outcome(data=offline.to_dict(report), text=offline.to_rich(report), code=int(refused))
