"""`gfcr sweep`."""

import argparse
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from rich.markup import escape

from gfcr import registry, sweep
from gfcr.commands import Outcome, add_start
from gfcr.commands.leaderboard import table_of
from gfcr.commands.reported import report_study
from gfcr.commands.run import tell_dropped
from gfcr.commands.sweep_display import SweepDisplay
from gfcr.errors import GfcrError, described
from gfcr.experiment.rehearsal import Rehearsal, rehearse
from gfcr.shown.table import Column, Table
from gfcr.sweep import multirun
from gfcr.sweep.factors import levels_of
from gfcr.values import merging
from gfcr.values.overrides import apply_overrides


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="path of a study's YAML file")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm; KEY=A,B crosses")
    fresh = "run finished trials again; by the same code, they have no verdict"
    add_start(parser, fresh=fresh)
    parser.add_argument("--arms", help="run only these arms, as in --arms grpo,dapo")
    known = ", ".join(registry.names("launcher"))
    parser.add_argument("--launcher", help=f"where trials run, in place of the file's: {known}")


def run(options: argparse.Namespace) -> Outcome:
    """Runs the study; exit code 1 when a trial failed or has no score."""
    launcher = [] if options.launcher is None else [f"launcher={options.launcher}"]
    overrides = [*launcher, *options.overrides]  # its own keys come on top
    study = sweep.load(options.study, overrides=overrides)
    ones, several = multirun.parted(overrides)
    now = apply_overrides(merging.read(options.study), ones)
    tell_dropped(options.study, now=now)
    for key, values in several.items():
        for arm, changes in levels_of(key, values, where=options.study).items():
            made = merging.merge(now, changes)
            tell_dropped(options.study, now=made, was=now, arm=f"{key}={arm}: ")
    asked = options.arms or ""
    arms = [asked] if asked in study.arms else asked.split(",")  # a name may have commas
    chosen = study if options.arms is None else study.only(arms)
    chosen = replace(chosen, accept_data=options.accept == "data")
    if options.dry_run:
        return _rehearsed(chosen, fresh=options.fresh)
    ends = run_study(chosen, fresh=options.fresh)
    text = "\n".join([_text(ends), *map(escape, sweep.notes(chosen, ends=ends))])
    code = 1 if sweep.problems(ends) else 0
    data = data_of(chosen, ends=ends)
    # The table is of all arms: others may have been run before.
    return Outcome(data=data, text=[text, *_reported(study, ends=ends)], code=code)


def _rehearsed(study: sweep.Study, *, fresh: bool) -> Outcome:
    """Returns what each trial would do; what starts anew has the same prompts for all seeds."""
    study = sweep.unfolded(study)
    first = [trials[0] for trials in study.arms.values()]
    how = {"fresh": fresh, "accepted": study.accept_data}
    found = [(t.name, rehearse(t.config, **how, prompts=t in first)) for t in study.trials]
    refused = any(each.would == "be refused" for _, each in found)
    columns: tuple[Column[tuple[str, Rehearsal]], ...] = (
        Column("trial", lambda row: row[0], words=True),
        Column("would", lambda row: row[1].would, words=True),
        Column("from where, or why", lambda row: row[1].detail, words=True, wraps=True),
    )
    data = {"study": study.name, "trials": [{"trial": n, **asdict(each)} for n, each in found]}
    return Outcome(data=data, text=Table(rows=found, columns=columns), code=int(refused))


def run_study(
    study: sweep.Study, *, fresh: bool, show: Callable[[Table[Any]], None] | None = None
) -> list[sweep.TrialEnd]:
    """Runs a study under the live table; `show` gets the table in place of the terminal."""
    with SweepDisplay(study, show=show) as display:
        ends = sweep.run(study, fresh=fresh, begin=display.begin, watch=display.watch)
        display.close(ends)
    return ends


def data_of(study: sweep.Study, *, ends: list[sweep.TrialEnd]) -> dict[str, Any]:
    """Returns the study's trials as JSON values."""
    trials = [
        {
            **e.result,
            "arm": e.trial.config.name,
            "seed": e.trial.config.seed,
            "status": e.status,
            "problem": e.problem,
        }
        for e in ends
    ]
    return {
        "study": study.name,
        "baseline": study.baseline,
        "metric": study.metric,
        "notes": sweep.notes(study, ends=ends),
        "trials": trials,
        "decisions": sweep.decisions.read(study) if study.stopping or study.search else [],
    }


def _reported(study: sweep.Study, *, ends: list[sweep.TrialEnd]) -> list[Any]:
    """Returns the leaderboard and where its report is, once a trial has a score."""
    if not any(end.status in ("finished", "cached") for end in ends):
        return []
    config = study.trials[0].config
    if (tracker := config.tracking["name"]) != "mlflow":
        runs = escape(shlex.quote(f"{config.folder}/{study.name}"))
        return [f"tracking={tracker}: `gfcr upload {runs}` brings it to MLflow and its leaderboard"]
    try:
        board, where = report_study(study)
        return [*table_of(board), where]
    except Exception as error:  # the trials are done, whatever becomes of their table
        told = str(error) if isinstance(error, GfcrError) else described(error)
        return [f"no leaderboard: {escape(told)}"]


def _text(ends: list[sweep.TrialEnd]) -> str:
    counts = Counter(e.status for e in ends)
    lines = [", ".join(f"{n} {status}" for status, n in counts.items())]
    lines += [f"[red]{e.trial.name}[/]: {escape(str(e.problem))}" for e in sweep.problems(ends)]
    lines += [
        f"{e.trial.name} stopped {escape(str(e.problem))}" for e in ends if e.status == "stopped"
    ]
    return "\n".join(lines)
