"""`gfcr bench ranking`."""

import argparse
from pathlib import Path
from typing import Any

from gfcr.commands import Outcome, within
from gfcr.errors import ConfigError, unknown_name
from gfcr.values.ranges import Count, Fraction, Large, NonNegative

ENTRY = Path("experiments/leaderboard/chain-sum/entry.json")

_RULES = {"halving": ("first", "factor", "resource"), "wilcoxon": ("p", "after")}


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
    parser.add_argument("--rule", choices=list(_RULES), help="one rule; many halvings without")
    parser.add_argument("--first", type=within(Large), help="halving: first rung")
    parser.add_argument("--factor", type=within(Count), help="halving: one in so many goes on")
    parser.add_argument("--resource", help="halving: updates or generated_tokens")
    parser.add_argument("--p", type=within(Fraction), help="wilcoxon: level")
    parser.add_argument(
        "--after", type=within(Count), help="wilcoxon: seeds before the first decision"
    )


def run(options: argparse.Namespace) -> Outcome:
    from gfcr.bench import ranking, ranking_report

    found = ranking_report.measure(
        ranking.read(_records(options), baseline=options.baseline),
        rules=_rules(options),
        arms=options.arms,
        resamples=options.resamples,
        restart_s=options.restart_s,
        margin=options.margin,
        protect=options.with_baseline,
    )
    return Outcome(data=found, text=ranking_report.text(found))


def _rules(options: argparse.Namespace) -> list[Any]:
    from gfcr import registry

    given = {
        key: getattr(options, key)
        for keys in _RULES.values()
        for key in keys
        if getattr(options, key) is not None
    }
    if options.rule is None:
        if given:
            raise ConfigError(f"--{next(iter(given))} belongs to a rule: give --rule too.")
        return []
    return [registry.build("stopping", {"name": options.rule, **given})]


def _records(options: argparse.Namespace) -> list[Any]:
    from gfcr.commands.leaderboard import asked
    from gfcr.tracking.folder_store import find_folders, read_folders

    if options.study.endswith(".json"):
        from gfcr.leaderboard import answers, entry

        return answers.records_of(entry.read(Path(options.study)))
    study, runs = asked(options.study)
    if options.uri is not None:
        from gfcr.tracking.mlflow_store import read_runs

        records = read_runs(options.uri)
    else:
        records = read_folders(find_folders(options.folder))
    names = {r.study for r in records}
    if study not in names:
        where = options.uri or options.folder
        raise unknown_name(str(study), kind="study", allowed=names, where=where)
    return [r for r in records if r.study == study and (not runs or r.run_id in runs)]
