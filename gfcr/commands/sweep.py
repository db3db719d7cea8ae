"""`gfcr sweep`."""

import argparse
from collections import Counter
from typing import Any

from gfcr import sweep
from gfcr.commands import Outcome
from gfcr.commands.sweep_display import SweepDisplay

HELP = "Run every arm and seed of a study; finished trials are not run again."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("study", help="path of a study's YAML file")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm")
    parser.add_argument("--fresh", action="store_true", help="run finished trials again")


def run(options: argparse.Namespace) -> Outcome:
    """Runs the study; exit code 1 when a trial failed."""
    study = sweep.load(options.study, overrides=options.overrides)
    ends = run_study(study, fresh=options.fresh)
    failed = [e for e in ends if e.status == "failed"]
    return Outcome(data=data_of(study, ends=ends), text=_text(ends), code=1 if failed else 0)


def run_study(study: sweep.Study, *, fresh: bool) -> list[sweep.TrialEnd]:
    """Runs a study under the live table."""
    with SweepDisplay(study) as display:
        ends = sweep.run(study, fresh=fresh, begin=display.begin, watch=display.watch)
        display.close(ends)
    return ends


def data_of(study: sweep.Study, *, ends: list[sweep.TrialEnd]) -> dict[str, Any]:
    """The study's trials as JSON."""
    trials = [
        {**e.result, "arm": e.trial.config.name, "seed": e.trial.config.seed, "status": e.status}
        for e in ends
    ]
    return {"study": study.name, "baseline": study.baseline, "trials": trials}


def _text(ends: list[sweep.TrialEnd]) -> str:
    counts = Counter(e.status for e in ends)
    lines = [", ".join(f"{n} {status}" for status, n in counts.items())]
    lines += [
        f"[red]{e.trial.name} failed[/]: {e.result.get('error')}"
        for e in ends
        if e.status == "failed"
    ]
    return "\n".join(lines)
