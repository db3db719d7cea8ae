"""`gfcr bench published`."""

import argparse
from dataclasses import asdict

from gfcr.commands import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(options: argparse.Namespace) -> Outcome:
    """Compares; exit code 1 where a figure that decides is off."""
    from benchmarks.published import check, report

    rows = check.rows()
    off = [row.what for row in rows if row.decides and not row.holds]
    data = {
        "ok": not off,
        "off": off,
        "rows": [{**asdict(r), "error": r.error, "holds": r.holds} for r in rows],
    }
    return Outcome(data=data, text=report.check_text(rows), code=1 if off else 0)
