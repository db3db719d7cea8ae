"""`gfcr bench ranking`."""

import argparse
from pathlib import Path
from typing import Any

from gfcr import registry
from gfcr.commands import Outcome, spoken, within
from gfcr.errors import unknown_name
from gfcr.values.ranges import Count, NonNegative

ENTRY = Path("experiments/leaderboard/chain-sum/entry.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "study",
        nargs="?",
        default=str(ENTRY),
        help=f"a finished study's name or YAML file, or an entry of the leaderboard ({ENTRY})",
    )
    parser.add_argument("--folder", default="runs", help="where its run folders are")
    parser.add_argument("--uri", help="read it from this MLflow store instead")
    parser.add_argument("--baseline", help="the study's own by default")
    parser.add_argument("--arms", type=within(Count), default=12, help="arms in a resample")
    parser.add_argument("--resamples", type=within(Count), default=200, help="resamples a rule")
    parser.add_argument(
        "--restart-s", type=within(NonNegative), default=0.0, help="seconds a restart costs"
    )
    parser.add_argument(
        "--margin", type=within(NonNegative), default=0.02, help="difference that is no matter"
    )
    parser.add_argument(
        "--with-baseline", action="store_true", help="run the baseline to its end, as studies do"
    )
    parser.add_argument(
        "--rule",
        metavar="'NAME KEY=VALUE ...'",
        help="one stopping rule, e.g. 'halving first=5 factor=4'; many halvings without",
    )


def run(options: argparse.Namespace) -> Outcome:
    from benchmarks import ranking, ranking_report

    rule = options.rule and registry.build("stopping", spoken(options.rule, flag="--rule"))
    found = ranking_report.measure(
        ranking.read(_records(options), baseline=options.baseline),
        rules=[rule] if rule else [],
        arms=options.arms,
        resamples=options.resamples,
        restart_s=options.restart_s,
        margin=options.margin,
        protect=options.with_baseline,
    )
    return Outcome(data=found, text=ranking_report.text(found))


def _records(options: argparse.Namespace) -> list[Any]:
    from gfcr.commands.leaderboard import asked
    from gfcr.tracking.folder_store import find_folders, read_folders

    if options.study.endswith(".json"):
        from benchmarks.entries import entry, recomputed

        return recomputed.records_of(entry.read(Path(options.study)))
    wanted = asked(options)
    if options.uri is not None:
        from gfcr.tracking.mlflow_store import read_runs

        records = read_runs(options.uri)
    else:
        records = read_folders(find_folders(options.folder))
    names = {r.study for r in records}
    if wanted.study not in names:
        where = options.uri or options.folder
        raise unknown_name(str(wanted.study), kind="study", allowed=names, where=where)
    own = [r for r in records if r.study == wanted.study]
    return [r for r in own if not wanted.runs or r.run_id in wanted.runs]
