"""`gfcr claims`."""

import argparse
from pathlib import Path

from benchmarks.claims import regime
from gfcr.commands import Outcome, to_write, within
from gfcr.values.ranges import Count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("strategies", nargs="*", help="names; all that have a claim without")
    parser.add_argument("--regime", help="claims of this regime alone")
    parser.add_argument("--seeds", type=within(Count), default=5, help="of each arm; 5")
    parser.add_argument("--run", action="store_true", help="make the runs that are missing")
    parser.add_argument(
        "--replicate", action="store_true", help="make three runs more of each arm, shown apart"
    )
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write an entry of each there")
    parser.add_argument("--plot", type=to_write, metavar="FILE.svg", help="draw the effects there")
    parser.add_argument("--regimes", type=Path, default=regime.FOLDER, help="folder of the regimes")
    parser.add_argument("--launcher", help="where trials run, as 'local parallel=1'")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for every arm; then it is another study than the claim's",
    )


def run(options: argparse.Namespace) -> Outcome:
    """Answers for the claims; exit code 1 where a trial failed."""
    from benchmarks.claims.answer import answer

    return answer(options)
