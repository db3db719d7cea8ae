"""`gfcr leaderboard`."""

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from gfcr import sweep
from gfcr.commands import Outcome, to_write, within
from gfcr.values.ranges import Finite, NonNegative

if TYPE_CHECKING:
    from gfcr.leaderboard import Leaderboard
    from gfcr.leaderboard.rows import ArmSeed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", nargs="?", help="a study's name or YAML file; all without")
    parser.add_argument("--uri", help="MLflow tracking URI; that of the study's file by default")
    parser.add_argument("--baseline", help="arm to compare with; the study's own by default")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="EXPRESSION",
        help="keep what this holds for, e.g. 'tokens < 2e6 and strategy.filters.zero_variance'",
    )
    parser.add_argument(
        "--margin",
        type=within(NonNegative),
        help="difference that is no matter; the study's own, or 0.02",
    )
    parser.add_argument(
        "--target",
        type=within(Finite),
        help="held-out score to reach; the baseline's final one by default",
    )
    parser.add_argument("--html", type=to_write, help="write the report there too")
    parser.add_argument("--markdown", type=to_write, help="write the table there too")
    parser.add_argument("--csv", type=to_write, help="write the rows there too")


def run(options: argparse.Namespace) -> Outcome:
    from gfcr import leaderboard
    from gfcr.commands import rendered
    from gfcr.leaderboard import report

    wanted = asked(options)
    board = leaderboard.build(
        wanted.uri,
        study=wanted.study,
        asked=wanted.runs,
        planned=wanted.baseline,
        baseline=options.baseline,
        where=options.where,
        margin=options.margin,
        target=options.target,
    )
    if options.markdown is not None:
        options.markdown.write_text(leaderboard.to_markdown(board), encoding="utf-8")
    if options.csv is not None:
        options.csv.write_text(leaderboard.to_csv(board), encoding="utf-8")
    if options.html is not None:
        rollouts = rendered.of_board(board, uri=wanted.uri)
        report.write(board, path=options.html, rollouts=rollouts)
    return Outcome(data=leaderboard.to_dict(board), text=table_of(board))


def table_of(board: "Leaderboard") -> list[Any]:
    """Returns a board as a terminal shows it: the table, and the remarks below it."""
    from gfcr import leaderboard

    return [leaderboard.to_rich(board), Text(leaderboard.remarks(board))]


class Asked(NamedTuple):
    """Which records a board is made of."""

    study: str | None
    runs: "dict[str, ArmSeed]"
    """Runs that the study's file asks for, by id; none where a name is given."""
    uri: str
    """The URI of the tracking store that they are read from."""
    baseline: str | None
    """The arm that the study's file compares with."""


def asked(options: argparse.Namespace) -> Asked:
    """Reads which study, by its name or file, and which store the command names."""
    given: str | None = options.study
    if given is None or not given.endswith((".yaml", ".yml")):
        return Asked(given, {}, options.uri or "sqlite:///mlflow.db", None)
    study = sweep.load(given, overrides=[])
    return Asked(study.name, asked_by(study), options.uri or study.store, study.baseline)


def asked_by(study: sweep.Study) -> "dict[str, ArmSeed]":
    """Returns the seeds of arms that a study asks for, by run id."""
    from gfcr.leaderboard.rows import ArmSeed

    trials = sweep.unfolded(study).trials
    return {t.run_id: ArmSeed(arm=t.config.name, seed=t.config.seed) for t in trials}
