"""`gfcr audit`."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfcr.commands import Outcome
from gfcr.errors import ConfigError

if TYPE_CHECKING:
    from gfcr.audit.certificate import Certificate

HELP = "Prove, or refute, that an engine samples from the target distribution; write certificates."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's arguments."""
    parser.add_argument("--model", default="demo", help="demo model, folder or Hub id")
    parser.add_argument("--drafter", default="all", help="names with commas, or all")
    parser.add_argument("--settings", default="all", help="names with commas, or all")
    parser.add_argument("--samples", type=int, help="most tokens of a cell (300000)")
    parser.add_argument("--unpatched", action="store_true", help="vLLM as shipped, without fixes")
    parser.add_argument("--folder", type=Path, default=Path("audits"), help="for certificates")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--calibrate", type=int, metavar="N", help="audit N toy engines of each kind instead"
    )


def run(options: argparse.Namespace) -> Outcome:
    """Audits, or calibrates the audit."""
    if options.samples is not None and options.samples < 1:
        raise ConfigError(f"--samples {options.samples}: give a whole number >= 1.")
    if options.calibrate is not None:
        return _calibrate(options)
    from gfcr import models
    from gfcr.audit import certificate, drafters, settings
    from gfcr.audit import run as audits
    from gfcr.audit.cell import SAMPLES
    from gfcr.commands.audit_display import AuditDisplay

    chosen, drafting = settings.named(options.settings), drafters.named(options.drafter)
    folder = models.resolve(options.model)
    plan = audits.Plan(
        model=options.model,
        folder=folder,
        drafters=drafting,
        settings=chosen,
        engine=audits.engine_for(folder, fixes=not options.unpatched),
        samples=options.samples or SAMPLES,
        seed=options.seed,
    )
    found: list[Certificate] = []
    files: list[Path] = []
    with AuditDisplay(cells=len(chosen) * len(drafting)) as display:
        for held in audits.run(plan, watch=display):
            found.append(held)
            files.append(certificate.write(held, folder=options.folder))
    return _outcome(found, files=files)


def _outcome(found: "list[Certificate]", *, files: list[Path]) -> Outcome:
    from gfcr.audit.cell import Verdict
    from gfcr.commands.audit_display import audit_table

    cells = [cell for held in found for cell in held.cells]
    verdicts = {c.verdict for c in cells if not c.refused}
    biased = Verdict.BIASED in verdicts
    overall = (
        Verdict.BIASED
        if biased
        else Verdict.LOSSLESS
        if verdicts == {Verdict.LOSSLESS}
        else Verdict.INCONCLUSIVE
    )
    data: dict[str, Any] = {
        "verdict": overall,
        "cells": [asdict(cell) for cell in cells],
        "certificates": [str(path) for path in files],
        "fixes": sorted({fix for held in found for fix in held.fixes}),
        "versions": dict(found[0].versions) if found else {},
    }
    where = f"certificates: {', '.join(map(str, files))}"
    text = [audit_table(cells), f"{overall}; {where}"]
    return Outcome(data=data, text=text, code=0 if overall is Verdict.LOSSLESS else 1)


def _calibrate(options: argparse.Namespace) -> Outcome:
    from gfcr.audit import calibrate
    from gfcr.audit.cell import SAMPLES
    from gfcr.commands.audit_display import calibration_table, say

    if options.calibrate < 1:
        raise ConfigError(f"--calibrate {options.calibrate}: give a whole number >= 1.")
    tallies: list[calibrate.Tally] = []
    for tally in calibrate.run(num=options.calibrate, samples=options.samples or SAMPLES):
        tallies.append(tally)
        say(f"{tally.name}: right {tally.right} of {options.calibrate}")
    rows = [asdict(t) | {"right": t.right, "at_least": t.at_least} for t in tallies]
    wrong = [t.name for t in tallies if t.right < 0.99 * options.calibrate]
    data = {"num": options.calibrate, "rows": rows, "below_99_percent": wrong}
    return Outcome(data=data, text=calibration_table(tallies), code=1 if wrong else 0)
