"""The campaign's own table: what was tried, and what fell.

A test of the campaign tries many cases of one class and notes its count with `tried`; the table
at the end of the run shows every class. Cases are small in number by default; `--whole` tries all.
"""

from collections.abc import Callable
from typing import Any

import pytest

_KEY = "campaign"


@pytest.fixture
def tried(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """`tried("kills", what="at every write", cases=40, fell=0)`, before the test asserts."""

    def note(area: str, *, what: str, cases: int, fell: int) -> None:
        record_property(_KEY, [area, what, cases, fell])

    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    rows = sorted(
        value
        for report in reports
        if getattr(report, "when", "") == "call"
        for key, value in report.user_properties
        if key == _KEY
    )
    if not rows:
        return
    terminalreporter.section("campaign: what was tried, and what fell")
    for area, what, cases, fell in rows:
        terminalreporter.write_line(f"{area:<12} {what:<70} {cases:>8,} {fell:>6,}")
    tried, fallen = sum(row[2] for row in rows), sum(row[3] for row in rows)
    terminalreporter.write_line(f"{'all':<12} {'':<70} {tried:>8,} {fallen:>6,}")
