"""Composes the answer of `gfcr claims`."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.markup import escape

from benchmarks.claims import claim as claims
from benchmarks.claims import entry as entries
from benchmarks.claims import plot, regime
from benchmarks.claims.claim import Claim, Untestable
from benchmarks.claims.display import Line, table
from benchmarks.claims.measures import HOW
from benchmarks.claims.planned import power_of
from benchmarks.claims.study import REPLICATION, Asked, ask
from gfcr import strategy as strategies
from gfcr.commands import Outcome, spoken
from gfcr.commands.sweep import run_study
from gfcr.errors import ConfigError, unknown_name
from gfcr.shown import picture
from gfcr.shown.text import plain
from gfcr.sweep import problems
from gfcr.values.overrides import apply_overrides

_UNJUDGED = {"verdict": None, "q_value": None, "score_q": None}
_IDLE = (
    "{strategy}: its runs cost or score what those of {baseline} do, seed by seed. It did nothing "
    "in {regime}, which says nothing of the claim: change settings or regime in its claim.yaml."
)
_COSTLESS = (
    "{strategy}: a run's cost by {measure} is 0 or unknown, and has no ratio to another. Change "
    "measure, settings or regime in its claim.yaml."
)


def answer(options: argparse.Namespace) -> Outcome:
    """Lists the claims asked for, makes missing runs where that is wanted, and judges."""
    found = _chosen(options)
    if options.plot is not None:
        picture.check(options.plot)
    if options.write is not None and options.write.is_file():
        raise ConfigError(f"--write {options.write} is a file: give a folder.")
    untestable = [each for each in found if isinstance(each, Untestable)]
    asked = _studies(found, seeds=range(options.seeds), options=options)
    again = _studies(found, seeds=REPLICATION, options=options)
    failed = [*_run_missing(asked, run=options.run), *_run_missing(again, run=options.replicate)]
    costless = [each for each in (*asked, *again) if _is_costless(each)]
    failed += dict.fromkeys(_COSTLESS.format(**asdict(each.claim)) for each in costless)
    parts = sum(1 if HOW[each.claim.measure].of == "score" else 2 for each in asked)
    planned = [power_of(each, parts=parts) for each in asked]
    made = [
        _entry(one, replication=other, folder=options.write)
        for one, other in zip(asked, again, strict=True)
    ]
    idle = [each for each in made if each is not None and entries.idle(each)]
    known = [each for each in made if each is not None and each not in idle]
    failed += [_IDLE.format(**each["claim"]) for each in idle]
    verdicts = {each.strategy: each for each in entries.judged(known)}
    lines = [
        Line(claim=a.claim, power=p, entry=e, judged=verdicts.get(a.claim.strategy))
        for a, p, e in zip(asked, planned, made, strict=True)
    ]
    written = [entries.write(each, folder=options.write) for each in known if options.write]
    drawn = [plot.draw(known, path=options.plot)] if options.plot and (known or not failed) else []
    said = [*(f"written: {path}" for path in (*written, *drawn)), *failed]
    return Outcome(
        data=_data(lines, untestable, failed),
        text=[table(lines, untestable=untestable, seeds=options.seeds), *map(escape, said)],
        code=int(bool(failed)),
    )


def _chosen(options: argparse.Namespace) -> list[Claim | Untestable]:
    """Returns the claims asked for; a strategy named without a claim is an error."""
    wanted = options.strategies or strategies.names()
    read = {name: claims.read(name) for name in wanted}
    for name in options.strategies:
        if read[name] is None:
            with_one = [n for n in strategies.names() if claims.read(n) is not None]
            raise unknown_name(name, kind="claim", allowed=with_one)
    found = [each for each in read.values() if each is not None]
    if options.regime is None:
        return found
    regime.load(options.regime, folder=options.regimes)
    return [e for e in found if isinstance(e, Claim) and e.regime == options.regime]


def _studies(
    found: Sequence[Claim | Untestable], *, seeds: Sequence[int], options: argparse.Namespace
) -> list[Asked]:
    changes = _changes(options)
    return [
        ask(each, seeds=seeds, folder=options.regimes, changes=changes)
        for each in found
        if isinstance(each, Claim)
    ]


def _changes(options: argparse.Namespace) -> dict[str, Any]:
    given = apply_overrides({}, options.set)
    if options.launcher is not None:
        given["launcher"] = spoken(options.launcher, flag="--launcher")
    return given


def _run_missing(asked: Sequence[Asked], *, run: bool) -> list[str]:
    """Makes missing runs where that is wanted; returns what the trials that failed say."""
    made = [run_study(each.study, fresh=False) for each in asked if run and each.left]
    return [str(end.problem) for ends in made for end in problems(ends)]


def _is_costless(asked: Asked) -> bool:
    """Returns whether all runs are there and their costs still cannot be compared."""
    return len(asked.study.seeds) > 1 and not asked.left and asked.measured() is None


def _entry(asked: Asked, *, replication: Asked, folder: Path | None) -> dict[str, Any] | None:
    """Returns the entry of a claim; one on record, if its replication alone was made here."""
    if (found := asked.measured()) is not None:
        return entries.of_asked(asked, found=found, replication=replication)
    path = folder and folder / f"{asked.claim.strategy}.json"
    if not path or not path.is_file() or replication.measured() is None:
        return None
    known = entries.read(path)
    if entries.claim_of(known) != asked.claim:
        raise ConfigError(
            f"{path} is of another claim than {asked.claim.strategy} has now, so no verdict is "
            "there to replicate: --run makes the runs that decide."
        )
    return entries.with_replication(known, of=replication)


def _data(lines: list[Line], untestable: list[Untestable], failed: list[str]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        {
            **asdict(line.claim),
            "power": asdict(line.power),
            "measured": line.entry and line.entry["measured"],
            "replication": line.entry and line.entry["replication"],
            **(asdict(line.judged) if line.judged else _UNJUDGED),
        }
        for line in lines
    ]
    rows += [{**asdict(each), "verdict": "not testable here"} for each in untestable]
    return {"claims": plain(rows), "problems": failed}
