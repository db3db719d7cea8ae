"""`gfcr submit`."""

import argparse
from pathlib import Path
from typing import Any

from rich.markup import escape

from benchmarks.entries.checks import CHECKS
from gfcr.commands import Outcome, within
from gfcr.commands.leaderboard import asked
from gfcr.values.ranges import Finite, NonNegative

FOLDER = Path("experiments/leaderboard")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="a study's name or YAML file")
    parser.add_argument("--name", required=True, help="of the entry: small letters, digits, - _ .")
    parser.add_argument("--uri", help="MLflow tracking URI; that of the study's file by default")
    parser.add_argument("--baseline", help="arm to compare with; the study's own by default")
    parser.add_argument("--margin", type=within(NonNegative), help="difference that is no matter")
    parser.add_argument("--target", type=within(Finite), help="held-out score to reach")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where entries are")
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        choices=CHECKS,
        help="submit although this check fails; the entry says so",
    )


def run(options: argparse.Namespace) -> Outcome:
    """Checks the study and writes the entry; exit code 1 when a check fails."""
    from benchmarks.entries.again import experiment_of
    from benchmarks.entries.checks import problems_of
    from benchmarks.entries.entry import entry_of
    from gfcr import leaderboard
    from gfcr.leaderboard.screen import screen

    wanted = asked(options)
    found = leaderboard.read(wanted.uri, study=wanted.study)
    records, others = leaderboard.of_file(found, runs=wanted.runs)
    board = leaderboard.rank(
        records,
        others=others,
        baseline=options.baseline or leaderboard.baseline_of(records, planned=wanted.baseline),
        margin=options.margin,
        target=options.target,
        asked=wanted.runs.values(),
    )
    problems = problems_of(board)
    fatal = [p for p in problems if p.check not in options.accept]
    if fatal:
        lines = [f"{p.check}: {p.text}" for p in fatal]
        told = "\n".join(["not submitted:", *(f"- {line}" for line in lines)])
        return Outcome(data={"submitted": None, "problems": lines}, text=escape(told), code=1)
    kept, _ = screen(records, baseline=board.baseline)
    arms = {row.arm: kept[row.arm] for row in board.rows}
    accepted = [f"{p.check}: {p.text}" for p in problems]
    again = {arm: experiment_of(own[0]) for arm, own in arms.items()}
    entry = entry_of(options.name, board=board, arms=arms, experiments=again, accepted=accepted)
    place = entry.write(options.folder)
    data: dict[str, Any] = {
        "submitted": str(place),
        "hash": entry.content["hash"],
        "rows": list(entry.experiments),
        "accepted": accepted,
        "problems": [],
    }
    return Outcome(data=data, text=f"{escape(str(place))}: {len(entry.experiments)} rows")
