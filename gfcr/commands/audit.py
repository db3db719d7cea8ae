"""`gfcr audit`."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from gfcr.commands import ENGINE, Outcome, engine_changes, within
from gfcr.values.ranges import Count, Large, Seed

if TYPE_CHECKING:
    from gfcr.audit.plan import Plan
    from gfcr.certificate.record import Certificate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", help=ENGINE)
    parser.add_argument("--model", help="demo model, folder or Hub id; a run's own, or demo")
    subject = parser.add_mutually_exclusive_group()
    subject.add_argument("--drafter", default="all", help="names or FILE.yaml with commas, or all")
    subject.add_argument("--strategy", metavar="NAME", help="the drafter of a strategy")
    subject.add_argument(
        "--experiment", type=Path, metavar="FILE", help="engine, drafter and sampling of a run"
    )
    parser.add_argument("--settings", help="names with commas, or all; a run's own by default")
    parser.add_argument(
        "--max-tokens", type=within(Count), help="of a completion; a run's own by default, or 256"
    )
    parser.add_argument("--samples", type=within(Large), help="most tokens of a cell (300000)")
    parser.add_argument(
        "--minutes", type=within(Count), help="of a cell; the same command goes on from there"
    )
    parser.add_argument("--unpatched", action="store_true", help="vLLM as shipped, without fixes")
    parser.add_argument("--folder", type=Path, help="for certificates (GFCR_AUDITS, or audits)")
    parser.add_argument("--seed", type=within(Seed), default=0)


def run(options: argparse.Namespace) -> Outcome:
    from gfcr import models
    from gfcr.audit import run as audits
    from gfcr.certificate import record as certificate
    from gfcr.commands.audit_display import AuditDisplay

    plan = _plan(options)
    models.resolve(plan.model)  # a demo model shows how it is made, before the audit does
    folder = options.folder or certificate.default_folder()
    plan = replace(plan, keep=folder)
    found: list[Certificate] = []
    files: list[Path] = []
    with AuditDisplay(cells=len(plan.settings) * len(plan.drafters)) as display:
        if plan.shortened:
            display.say(plan.shortened)
        for held in audits.run(plan, watch=display):
            found.append(held)
            files.append(certificate.write(held, folder=folder))
    return _outcome(found, files=files)


def _plan(options: argparse.Namespace) -> "Plan":
    from gfcr.audit import plan
    from gfcr.certificate import settings

    if options.experiment is not None:
        made = plan.of_experiment(options.experiment, overrides=options.overrides)
    elif options.strategy is not None:
        made = plan.of_strategy(options.strategy, changes=engine_changes(options.overrides))
    else:
        made = plan.of_drafters(options.drafter, changes=engine_changes(options.overrides))
    engine = dict(made.engine) | ({"fixes": False} if options.unpatched else {})
    given = {
        "model": options.model,
        "settings": options.settings and settings.named(options.settings),
        "max_tokens": options.max_tokens,
        "samples": options.samples,
        "minutes": options.minutes,
    }
    kept = {key: value for key, value in given.items() if value}
    return replace(made, engine=engine, seed=options.seed, **kept)


def _outcome(found: "list[Certificate]", *, files: list[Path]) -> Outcome:
    from gfcr.certificate.cell import Verdict, verdict_of
    from gfcr.commands.audit_display import audit_table

    cells = [cell for held in found for cell in held.cells]
    overall = verdict_of(cells)
    data: dict[str, Any] = {
        "verdict": overall,
        "cells": cells,
        "certificates": [str(path) for path in files],
        "fixes": sorted({fix for held in found for fix in held.fixes}),
        "versions": dict(found[0].versions) if found else {},
    }
    where = f"certificates: {', '.join(map(str, files))}"
    text = [audit_table(cells), escape(f"{overall}; {where}")]
    return Outcome(data=data, text=text, code=0 if overall is Verdict.LOSSLESS else 1)
